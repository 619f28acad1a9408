/** The import directions of docs/architecture.md, as rules: each names who may NOT import what, and why. */
const only = (name, from, allowed, comment) => ({
  name,
  comment,
  severity: 'error',
  from: { path: from },
  to: { path: '^(lib|functions|infra|test)/', pathNot: allowed },
});

export default {
  forbidden: [
    { name: 'no-circular', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'lib-knows-nothing-above',
      comment: 'lib is what functions, infra and tests are built on',
      severity: 'error',
      from: { path: '^lib/' },
      to: { path: '^(functions|infra|test)/' },
    },
    only(
      'provider-imports-nothing',
      '^lib/provider/',
      '^lib/provider/',
      'the contract depends on no implementation',
    ),
    only(
      'libvirt-stands-alone',
      '^lib/libvirt/',
      '^lib/libvirt/',
      'it takes a Duplex and could be published alone',
    ),
    only('ssh-stands-alone', '^lib/ssh/', '^lib/ssh/', 'it returns a Duplex and knows no libvirt'),
    only('seed-stands-alone', '^lib/seed/', '^lib/seed/', 'bytes in, bytes out'),
    only('image-on-libvirt', '^lib/image/', '^lib/(image|libvirt)/', 'an image ends in a storage pool'),
    only(
      'kvm-on-the-lower-layer',
      '^lib/kvm/',
      '^lib/(kvm|provider|libvirt|ssh|seed|image)/',
      'the provider on libvirt',
    ),
    only(
      'gc-decides-on-the-contract',
      '^lib/gc/',
      '^lib/(gc|provider)/',
      'what to collect is decided on a fleet view alone',
    ),
    only(
      'config-knows-only-the-contract',
      '^lib/config/',
      '^lib/(config|provider|ssh)/',
      'it checks keys and known_hosts with lib/ssh',
    ),
    only('lambda-is-the-top-of-lib', '^lib/lambda/', '^lib/', 'the composition root of every function'),
    only(
      'functions-are-thin',
      '^functions/',
      '^(functions|lib/(lambda|config|kvm|gc|provider))/',
      'parse, call lib, map the result',
    ),
    {
      name: 'ssh2-in-two-places',
      severity: 'error',
      from: { pathNot: '^(lib/ssh|infra/local/hypervisor|test)/' },
      to: { path: 'node_modules/(ssh2|@types/ssh2)/' },
    },
    {
      name: 'aws-sdk-at-the-top',
      comment: 'fetch, queue and secrets are passed in below lib/lambda and lib/config',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/(lambda|config)/' },
      to: { path: 'node_modules/(@aws-sdk|@aws-lambda-powertools|@middy)/' },
    },
    {
      name: 'no-dev-dependencies-in-the-product',
      severity: 'error',
      from: { path: '^(lib|functions)/' },
      to: { dependencyTypes: ['npm-dev'], pathNot: 'node_modules/@types/' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      extensions: ['.ts', '.mjs', '.js', '.json'],
      conditionNames: ['import', 'node', 'default'],
    },
  },
};
