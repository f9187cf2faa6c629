package floatcodec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "add golden files for samples that have none")

// TestGolden decodes files written by earlier versions. They must stay readable
// for ever: never change or remove one. `go test -run TestGolden -update` adds
// files for new samples.
func TestGolden(t *testing.T) {
	const dir = "testdata/golden"
	if *update {
		writeGolden(t, dir)
	}
	digests, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(digests)), "\n")
	files, err := filepath.Glob(filepath.Join(dir, "*.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(lines) {
		t.Errorf("%d files, %d digests", len(files), len(lines))
	}
	for _, line := range lines {
		want, name, _ := strings.Cut(line, "  ")
		enc, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := Decode(nil, enc, Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: decoded bytes have SHA-256 %x, want %s", name, sum, want)
		}
	}
}

func writeGolden(t *testing.T, dir string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	sums, err := os.OpenFile(filepath.Join(dir, "SHA256SUMS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer sums.Close()
	raws, encs := samples(t)
	for i, name := range sampleNames {
		path := filepath.Join(dir, name+".bin")
		if old, err := os.ReadFile(path); err == nil {
			if !bytes.Equal(old, encs[i]) {
				t.Logf("%s: the encoder now writes other bytes", path)
			}
			continue
		}
		if err := os.WriteFile(path, encs[i], 0o644); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(raws[i])
		if _, err := sums.WriteString(hex.EncodeToString(sum[:]) + "  " + name + ".bin\n"); err != nil {
			t.Fatal(err)
		}
	}
}
