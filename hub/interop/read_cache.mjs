// Reads a cache with npm's @huggingface/hub, without network.
// Arguments: folder with node_modules, cache, repository, commit, file…
// Prints one JSON object with what was found.
import { createRequire } from 'node:module';

const [modules, cacheDir, repo, revision, ...files] = process.argv.slice(2);
const { downloadFileToCacheDir, scanCacheDir } = createRequire(modules + '/')('@huggingface/hub');
const fetch = () => {
  throw new Error('the network is not used here');
};
const scan = await scanCacheDir(cacheDir);
const paths = {};
for (const path of files) {
  paths[path] = await downloadFileToCacheDir({ repo, path, revision, cacheDir, fetch });
}
console.log(
  JSON.stringify({
    warnings: scan.warnings.map(String),
    repos: scan.repos.map((r) => r.id.name),
    commits: scan.repos.flatMap((r) => r.revisions.map((v) => v.commitOid)),
    paths,
  }),
);
