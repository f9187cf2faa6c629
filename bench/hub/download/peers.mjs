// Downloads one file with npm's @huggingface/hub.
// Arguments: folder with node_modules, Hub, repository, file, cache, http or xet.
import { createRequire } from 'node:module';

const [modules, hubUrl, repo, path, cacheDir, road] = process.argv.slice(2);
const { downloadFileToCacheDir } = createRequire(modules + '/')('@huggingface/hub');
console.debug = () => {}; // the package prints there
await downloadFileToCacheDir({ repo, path, cacheDir, hubUrl, xet: road === 'xet' });
