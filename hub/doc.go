// Package hub is a client for the Hugging Face Hub: it resolves a revision to
// a commit, lists files, downloads them with resume and verification, and
// keeps them in the standard cache that Python's huggingface_hub reads and
// writes.
//
// A [Client] is made by [New] and is safe for concurrent use. The library
// reads no environment variable by itself; [OptionsFromEnv] turns the usual
// variables (HF_HOME, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE, ...) into
// [Options].
//
// A newcomer needs three calls: [Client.Snapshot] for a repository,
// [Client.Download] for one file, and [Client.SnapshotTo] for a plain
// directory. [Client.OpenRemote] and [Client.RemoteSafetensors] read without
// downloading; [Client.Info], [Client.Tree] and their kind ask the Hub;
// [ScanCache] and [Client.Verify] look after what was downloaded.
//
// Three promises hold for every download:
//
//   - A file gets its final name only after its size and its digest (SHA-256
//     for LFS files, the git blob id for plain files) were checked.
//   - A partial file survives a killed process and is resumed by the next run.
//   - The token is sent to the endpoint's origin (scheme, host and port) and
//     to nobody else, whatever redirects say.
//
// Errors are [*Error] values with a kind that errors.Is matches
// ([ErrRepoNotFound], [ErrGated], [ErrOffline], ...) plus a few typed ones
// with details ([*ChecksumError], [*SizeError], ...). Their texts never hold a
// token or the query of a signed URL.
package hub
