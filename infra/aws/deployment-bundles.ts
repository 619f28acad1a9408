/**
 * The bundles as they are deployed: each with the configuration beside it, without secrets. One file per function and
 * not a shared layer, so that a function and the configuration it was tested with change together.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../../lib/config/schema.ts';
import { shippedConfig } from '../../lib/config/shipped-config.ts';
import { bundleFunction } from '../bundle.ts';
import { FUNCTION_NAMES, type FunctionName } from '../routes.ts';

/** The folder of each function's bundle. */
export type Bundles = Readonly<Record<FunctionName, string>>;

export async function bundleForDeployment(config: Config, outdir: string): Promise<Bundles> {
  const shipped = shippedConfig(config);
  const folders = await Promise.all(
    FUNCTION_NAMES.map(async (name) => {
      const folder = join(outdir, name);
      await bundleFunction(name, folder);
      await writeFile(join(folder, 'config.json'), shipped);
      return [name, folder] as const;
    }),
  );
  return Object.fromEntries(folders) as Record<FunctionName, string>;
}
