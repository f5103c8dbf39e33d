// Command release builds the archives of a release: the holdfast command as a
// static binary for each target, with man pages and completions, a list of what
// is inside (SBOM) and checksums. The same source gives the same bytes.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// targets are the systems that a release is for.
var targets = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

func main() {
	out := flag.String("out", "dist", "the `DIR` that the archives go to")
	only := flag.String("targets", strings.Join(targets, ","), "the `OS/ARCH`,… to build for")
	flag.Parse()
	if err := release(context.Background(), *out, strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release builds everything into a folder. What was in it before is removed.
func release(ctx context.Context, out string, targets []string) error {
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "holdfast-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the system's own folder for that
	docs, err := generateDocs(ctx, work)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, target := range targets {
		files, err := releaseTarget(ctx, work, target, docs)
		if err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(out, f.name), f.data, 0o644); err != nil {
				return err
			}
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(f.data), f.name)
			fmt.Println(filepath.Join(out, f.name))
		}
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// file is one file of a release, or of an archive.
type file struct {
	name string
	data []byte
	runs bool // it can be executed
}

// releaseTarget builds for one system: the archive, and the list of what is in
// its binary.
func releaseTarget(ctx context.Context, work, target string, docs []file) ([]file, error) {
	system, arch, found := strings.Cut(target, "/")
	if !found {
		return nil, fmt.Errorf("it is not of the form os/arch, such as %s", targets[0])
	}
	name := "holdfast"
	if system == "windows" {
		name += ".exe"
	}
	binary := filepath.Join(work, system+"-"+arch, name)
	if err := build(ctx, binary, system, arch); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	bill, err := billOfMaterials(info, sha256.Sum256(data))
	if err != nil {
		return nil, err
	}
	base := fmt.Sprintf("holdfast_%s_%s", system, arch)
	content := append([]file{{name, data, true}, {"holdfast.cdx.json", bill, false}}, docs...)
	archive, pack := base+".tar.gz", packTar
	if system == "windows" {
		archive, pack = base+".zip", packZip
	}
	packed, err := pack(base, content)
	return []file{{name: archive, data: packed}, {name: base + ".cdx.json", data: bill}}, err
}

// build compiles the command without anything that differs from one machine to
// the next.
func build(ctx context.Context, binary, system, arch string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w -buildid=", "-o", binary, "./cmd/holdfast")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+system, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// generateDocs has the command of this machine write its man pages and
// completions, and adds what a reader of the archive needs.
func generateDocs(ctx context.Context, work string) ([]file, error) {
	binary := filepath.Join(work, "here", "holdfast")
	if err := build(ctx, binary, runtime.GOOS, runtime.GOARCH); err != nil {
		return nil, err
	}
	pages := filepath.Join(work, "man")
	man := exec.CommandContext(ctx, binary, "man", pages)
	man.Stderr = os.Stderr
	if err := man.Run(); err != nil {
		return nil, fmt.Errorf("write the man pages: %w", err)
	}
	var docs []file
	entries, err := os.ReadDir(pages)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(pages, e.Name()))
		if err != nil {
			return nil, err
		}
		docs = append(docs, file{name: path.Join("man/man1", e.Name()), data: data})
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		script, err := exec.CommandContext(ctx, binary, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("write the completion of %s: %w", shell, err)
		}
		docs = append(docs, file{name: path.Join("completions", "holdfast."+shell), data: script})
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		docs = append(docs, file{name: name, data: data})
	}
	slices.SortFunc(docs, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return docs, nil
}
