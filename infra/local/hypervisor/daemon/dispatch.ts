/** One handler for each procedure of the protocol table: a procedure without one does not compile. */
import { connectProcedures } from './connect-procedures.ts';
import { domainMetadataProcedures } from './domain-metadata-procedures.ts';
import { domainProcedures } from './domain-procedures.ts';
import { guestProcedures } from './guest-procedures.ts';
import type { Handlers } from './handler.ts';
import { interfaceProcedures } from './interface-procedures.ts';
import { poolProcedures } from './pool-procedures.ts';
import { volumeProcedures } from './volume-procedures.ts';

export const handlers: Handlers = {
  ...connectProcedures,
  ...domainProcedures,
  ...domainMetadataProcedures,
  ...guestProcedures,
  ...interfaceProcedures,
  ...poolProcedures,
  ...volumeProcedures,
};

export { downloadHandlers, uploadHandlers } from './volume-streams.ts';
