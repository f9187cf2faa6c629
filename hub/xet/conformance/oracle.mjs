// Prints the golden hashes of hash_test.go with the official JavaScript
// implementation. By hand, anywhere outside the repository:
//
//   npm install @huggingface/xetchunk-wasm@0.2 && node oracle.mjs
import { fileHash, getChunks, hashToHex, xorbHash } from '@huggingface/xetchunk-wasm';

// Note: this implementation (0.2.0) looks for a cut up to 64 bytes before the
// minimum length, as the reference once did; the specification and the current
// reference do not. The inputs below have no such place.

// SplitMix64 from seed 0, the data of the reference's own chunking test.
function noise(n) {
  const out = new Uint8Array(n);
  const view = new DataView(out.buffer);
  const mask = 0xffffffffffffffffn;
  let state = 0n;
  for (let i = 0; i < n; i += 8) {
    state = (state + 0x9e3779b97f4a7c15n) & mask;
    let z = state;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & mask;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & mask;
    view.setBigUint64(i, z ^ (z >> 31n), true);
  }
  return out;
}

const inputs = {
  hello: new TextEncoder().encode('Hello World!'),
  zeros: new Uint8Array(1_000_000),
  noise: noise(1_000_000),
};
for (const [name, data] of Object.entries(inputs)) {
  const chunks = getChunks(data);
  console.log(name, chunks.length, hashToHex(xorbHash(chunks)), hashToHex(fileHash(chunks)));
}
