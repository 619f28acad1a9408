/**
 * The DHCP server of the bridge: an address per MAC from the documentation networks (RFC 5737), the same one for the
 * same MAC as long as it is held. No address of these can exist on the machine's own network.
 */
const NETWORKS = ['192.0.2', '198.51.100', '203.0.113'];
const FIRST_HOST = 10;
const LAST_HOST = 250;

export class AddressLeases {
  readonly #byMac = new Map<string, string>();
  readonly #addresses: readonly string[];
  readonly #isHeld: (mac: string) => boolean;

  /** `skip` addresses are left to other hosts on the same networks; `isHeld` says which MACs still exist. */
  constructor({ skip, isHeld }: { readonly skip: number; readonly isHeld: (mac: string) => boolean }) {
    this.#addresses = addresses(skip);
    this.#isHeld = isHeld;
  }

  /** @throws RangeError when every address is held. */
  lease(mac: string): string {
    const address = this.#byMac.get(mac) ?? this.#free() ?? this.#reclaim();
    if (address === undefined) {
      throw new RangeError('the embedded host has no address left');
    }
    this.#byMac.set(mac, address);
    return address;
  }

  #free(): string | undefined {
    const taken = new Set(this.#byMac.values());
    return this.#addresses.find((address) => !taken.has(address));
  }

  #reclaim(): string | undefined {
    for (const mac of this.#byMac.keys()) {
      if (!this.#isHeld(mac)) {
        this.#byMac.delete(mac);
      }
    }
    return this.#free();
  }
}

function addresses(skip: number): string[] {
  const all = NETWORKS.flatMap((network) =>
    Array.from({ length: LAST_HOST - FIRST_HOST + 1 }, (_, index) => `${network}.${FIRST_HOST + index}`),
  );
  return [...all.slice(skip), ...all.slice(0, skip)];
}
