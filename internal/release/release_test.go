package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"runtime/debug"
	"testing"
)

var content = []file{{"holdfast", []byte("binary"), true}, {"man/man1/holdfast.1", []byte("page"), false}}

func TestPack_theSameContentGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	for name, pack := range map[string]func(string, []file) ([]byte, error){"tar": packTar, "zip": packZip} {
		one, err := pack("holdfast_x", content)
		other, failed := pack("holdfast_x", content)
		if err := errors.Join(err, failed); err != nil || !bytes.Equal(one, other) {
			t.Errorf("%s: %d and %d bytes differ: %v", name, len(one), len(other), err)
		}
	}
}

func TestPackTar_hasAllFilesAndTheBinaryRuns(t *testing.T) {
	t.Parallel()
	data, err := packTar("holdfast_x", content)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(unzipped)
	for _, want := range content {
		head, err := archive.Next()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(archive)
		if err != nil || head.Name != "holdfast_x/"+want.name || head.Mode != want.mode() || !bytes.Equal(got, want.data) {
			t.Errorf("%s with mode %o: %q, %v", head.Name, head.Mode, got, err)
		}
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("there is more: %v", err)
	}
}

func TestPackZip_hasAllFiles(t *testing.T) {
	t.Parallel()
	data, err := packZip("holdfast_x", content)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil || len(archive.File) != len(content) {
		t.Fatal(archive, err)
	}
	for i, f := range archive.File {
		if f.Name != "holdfast_x/"+content[i].name || f.UncompressedSize64 != uint64(len(content[i].data)) {
			t.Errorf("%s has %d bytes", f.Name, f.UncompressedSize64)
		}
	}
}

func TestBillOfMaterials_listsEveryModuleOfTheBinary(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{
		GoVersion: "go1.26.0",
		Main:      debug.Module{Path: "example.org/program", Version: "v1.2.3"},
		Deps: []*debug.Module{
			{Path: "example.org/a", Version: "v0.1.0", Sum: "h1:AAECAw=="},
			{Path: "example.org/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/new", Version: "v2.0.0+incompatible"}},
		},
		Settings: []debug.BuildSetting{{Key: "CGO_ENABLED", Value: "0"}},
	}
	text, err := billOfMaterials(info, [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	var got bill
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Format != "CycloneDX" || got.Metadata.Component.PURL != "pkg:golang/example.org/program@v1.2.3" || got.Metadata.Component.Hashes[0].Content[:2] != "01" {
		t.Errorf("the program is %+v", got.Metadata)
	}
	want := []string{"pkg:golang/std@1.26.0", "pkg:golang/example.org/a@v0.1.0", "pkg:golang/example.org/new@v2.0.0+incompatible"}
	for i, c := range got.Components {
		if i >= len(want) || c.PURL != want[i] || got.Dependencies[0].DependsOn[i] != want[i] {
			t.Errorf("component %d is %+v", i, c)
		}
	}
	if len(got.Components) != len(want) || got.Components[1].Properties[0].Value != "00010203" {
		t.Errorf("components are %+v", got.Components)
	}
}
