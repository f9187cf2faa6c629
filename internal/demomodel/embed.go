// Package demomodel carries a small trained model inside the binary: what
// "hfcompress demo" serves from its loopback Hub, and what the tests of the
// whole road run on.
//
// It is a Llama of 861,312 float32 values (4 layers, width 128, 4 heads, 32
// tokens, untied head) that writes molecules as SMILES strings. The vocabulary
// is a quarter of the width, so that three tables of the first layer's
// projections still cost less than the projections. The files are laid out as
// a model repository on the Hub has them, once with the weights in one file and
// once in three shards; the values are the same.
//
// testdata/gen/train_demo.py made it, training.log is its log, and
// files/main/README.md the model card. LICENSE names the terms of the weights
// and the source of the training data.
package demomodel

import (
	"embed"
	"io/fs"
)

// RepoID is the name under which the demo Hub serves the model.
const RepoID = "hfcompress/demo-smiles-llama"

// The revisions of RepoID, which are also the top folders of [FS].
const (
	// RevisionMain has the weights in one file, model.safetensors.
	RevisionMain = "main"
	// RevisionSharded has the same tensors in three files and
	// model.safetensors.index.json.
	RevisionSharded = "sharded"
)

//go:embed files
var files embed.FS

// FS returns the files of all revisions, read-only: an entry is named
// REVISION/FILE, such as main/config.json. It may be read from many goroutines.
func FS() fs.FS {
	sub, err := fs.Sub(files, "files")
	if err != nil {
		// fs.Sub only refuses an invalid path, and this one is a constant.
		panic("demomodel: " + err.Error())
	}
	return sub
}
