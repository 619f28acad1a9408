/** The lab is up for as long as its suite runs, and every trace of it is gone afterwards, also when the suite fails. */
import { bringUp, takeDown } from './lifecycle.ts';

export default async function setUpLab(): Promise<() => Promise<void>> {
  const interrupt = new AbortController();
  process.once('SIGINT', () => interrupt.abort());
  process.once('SIGTERM', () => interrupt.abort());
  await bringUp(interrupt.signal, (line) => console.log(`lab: ${line}`));
  return takeDown;
}
