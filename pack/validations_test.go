package pack_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hfcompress/compress/pack"
)

func validation(fingerprint string) pack.Validation {
	return pack.Validation{Device: pack.Device{Name: "gpu", Fingerprint: fingerprint},
		Against: "source", Require: "bitwise", Bitwise: true, Examples: 3, Outputs: 12}
}

func openNew(t testing.TB) *pack.Package {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "package")
	if err := write(t, dir, pack.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p, err := pack.Open(dir, pack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestValidations(t *testing.T) {
	p := openNew(t)
	expect := func(want ...pack.Validation) {
		t.Helper()
		got, err := p.Validations()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, expected %+v", got, err, want)
		}
	}
	expect()
	a, b := validation("one"), validation("two")
	for _, v := range []pack.Validation{a, b} {
		if err := p.AddValidation(v); err != nil {
			t.Fatal(err)
		}
	}
	expect(a, b)
	a.Bitwise, a.Against = false, "recorded"
	if err := p.AddValidation(a); err != nil {
		t.Fatal(err)
	}
	expect(b, a)
	if extra, err := p.Unlisted(); err != nil || len(extra) != 0 {
		t.Errorf("left beside the package: %v, %v", extra, err)
	}

	// A package is still whole with it, and the list means nothing to another one.
	path := filepath.Join(p.Dir(), pack.ValidationsName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := pack.Open(p.Dir(), pack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	other := strings.Replace(string(data), p.Manifest().Digest, strings.Repeat("0", 64), 1)
	if err := os.WriteFile(path, []byte(other), 0o644); err != nil {
		t.Fatal(err)
	}
	expect()

	for name, text := range map[string]string{
		"schema":       strings.Replace(string(data), `"schema": 1`, `"schema": 2`, 1),
		"unknown key":  strings.Replace(string(data), `"schema": 1`, `"schema": 1, "more": 1`, 1),
		"fingerprint":  strings.Replace(string(data), `"two"`, `""`, 1),
		"against":      strings.Replace(string(data), `"source"`, `"hearsay"`, 1),
		"gate":         strings.Replace(string(data), `"require": "bitwise"`, `"require": "none"`, 1),
		"no examples":  strings.Replace(string(data), `"examples": 3`, `"examples": 0`, 1),
		"cut":          string(data[:len(data)/2]),
		"too long":     string(data) + strings.Repeat(" ", 1<<20),
		"repeated key": strings.Replace(string(data), `"schema": 1`, `"schema": 1, "schema": 1`, 1),
	} {
		if text == string(data) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if v, err := p.Validations(); err == nil || !strings.Contains(err.Error(), pack.ValidationsName) {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	if err := p.AddValidation(pack.Validation{}); err == nil {
		t.Error("an empty validation was recorded")
	}
}

func FuzzValidations(f *testing.F) {
	p := openNew(f)
	if err := p.AddValidation(validation("one")); err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(p.Dir(), pack.ValidationsName)
	data, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"schema":1,"manifest":"","validations":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		list, err := p.Validations()
		if err != nil {
			return
		}
		for _, v := range list {
			if err := p.AddValidation(v); err != nil {
				t.Errorf("%+v was read and cannot be written: %v", v, err)
			}
		}
	})
}
