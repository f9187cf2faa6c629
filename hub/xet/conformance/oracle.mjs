// Prints the golden hashes of hash_test.go with the official JavaScript
// implementation. By hand, anywhere outside the repository:
//
//   npm install @huggingface/xetchunk-wasm@0.2 && node oracle.mjs
import { fileHash, getChunks, hashToHex, xorbHash } from '@huggingface/xetchunk-wasm';

// A 64-bit generator that both languages can write down: xorshift64.
function noise(n) {
  const out = new Uint8Array(n);
  let x = 88172645463325252n;
  for (let i = 0; i < n; i++) {
    x ^= (x << 13n) & 0xffffffffffffffffn;
    x ^= x >> 7n;
    x ^= (x << 17n) & 0xffffffffffffffffn;
    out[i] = Number(x & 0xffn);
  }
  return out;
}

const inputs = {
  hello: new TextEncoder().encode('Hello World!'),
  zeros: new Uint8Array(1_000_000),
  noise: noise(3_000_000),
};
for (const [name, data] of Object.entries(inputs)) {
  const chunks = getChunks(data);
  console.log(name, chunks.length, hashToHex(xorbHash(chunks)), hashToHex(fileHash(chunks)));
}
