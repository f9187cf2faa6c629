// Downloads one file with @huggingface/hub: node peers.mjs JOB, see peers.py.
import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createRequire } from 'node:module';

const require = createRequire(process.cwd() + '/');
const { __internal_XetBlob: XetBlob } = require('@huggingface/hub');
const job = JSON.parse(process.argv[2]);
const blob = new XetBlob({
  hash: job.Hash,
  size: job.Size,
  refreshUrl: 'http://127.0.0.1:9/unused',
  readToken: { accessToken: job.Token.Access || 'none', casUrl: job.Token.CAS, exp: Math.floor(Date.now() / 1000) + 3600 },
});
await pipeline(Readable.fromWeb(blob.stream()), createWriteStream(job.Out));
