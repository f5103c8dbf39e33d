package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
)

// The parts of a CycloneDX 1.5 document that this program writes.
type (
	bill struct {
		Format       string       `json:"bomFormat"`
		Version      string       `json:"specVersion"`
		Edition      int          `json:"version"`
		Metadata     billMetadata `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	billMetadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		Hashes     []hash     `json:"hashes,omitempty"`
		PURL       string     `json:"purl"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// billOfMaterials lists what a binary was made of, as the binary itself says: its
// modules with their checksums, the compiler and how it was built.
func billOfMaterials(info *debug.BuildInfo, sum [32]byte) ([]byte, error) {
	main := newComponent("application", info.Main)
	main.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum[:])}}
	for _, s := range info.Settings {
		main.Properties = append(main.Properties, property{"go:build:" + s.Key, s.Value})
	}
	b := bill{Format: "CycloneDX", Version: "1.5", Edition: 1, Metadata: billMetadata{main}, Components: []component{}}
	compiler := component{Type: "library", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
	compiler.PURL = "pkg:golang/std@" + compiler.Version
	compiler.Ref = compiler.PURL
	b.Components = append(b.Components, compiler)
	refs := []string{compiler.Ref}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := newComponent("library", *m)
		if text, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, fmt.Errorf("the checksum of %s: %w", m.Path, err)
			}
			c.Properties = []property{{"go:module:h1", hex.EncodeToString(raw)}} // of the module's files, not of an archive
		}
		b.Components = append(b.Components, c)
		refs = append(refs, c.Ref)
	}
	b.Dependencies = []dependency{{main.Ref, refs}}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(b)
	return text.Bytes(), err
}

func newComponent(kind string, m debug.Module) component {
	purl := "pkg:golang/" + m.Path + "@" + url.PathEscape(m.Version)
	return component{Type: kind, Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
}
