package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTimestepList(t *testing.T) {
	file := filepath.Join(t.TempDir(), "steps.json")
	if err := os.WriteFile(file, []byte("[980, 0.5]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]float32{
		"":            nil,
		"999":         {999},
		"0, 20.5,1e2": {0, 20.5, 100},
		file:          {980, 0.5},
		"1,,2":        nil,
		"1e99":        nil,
		"0-20":        nil,
		"no-such":     nil,
	} {
		got, err := timestepList(text)
		if !slices.Equal(got, want) || (err == nil) != (want != nil || text == "") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if _, err := labelList("9-3"); err == nil || !strings.Contains(err.Error(), `--labels: "9-3" is neither a class label nor a range`) {
		t.Errorf("%v", err)
	}
}

func TestIDList(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ids.json")
	if err := os.WriteFile(file, []byte("[4, 2]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"ids": [1]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int{
		"":           nil,
		"7":          {7},
		"0-3, 9":     {0, 1, 2, 3, 9},
		file:         {4, 2},
		"3-1":        nil,
		"1,,2":       nil,
		"-1":         nil,
		"0-99999999": nil,
		bad:          nil,
		"no-such":    nil,
	} {
		got, err := idList(text)
		if !slices.Equal(got, want) || (err == nil) != (want != nil || text == "") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
