// Brings a repository into a cache with npm's @huggingface/hub.
// Arguments: folder with node_modules, Hub, cache, repository, revision.
// Prints the snapshot folder.
import { createRequire } from 'node:module';

const [modules, hubUrl, cacheDir, repo, revision] = process.argv.slice(2);
const { snapshotDownload } = createRequire(modules + '/')('@huggingface/hub');
console.debug = () => {}; // the package prints there
console.log(await snapshotDownload({ repo, revision, cacheDir, hubUrl }));
