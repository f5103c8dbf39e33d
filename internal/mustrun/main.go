// Command mustrun reads `go test -json` and prints what `go test` would have
// printed. With -strict (the default where CI=true) it fails as well when a
// suite that should have run did not: a package of the suites file without a
// passing test, a package with tests that the file does not name, or a skip
// whose reason the file does not allow. Otherwise it only prints them.
//
//	go test -json ./... | go run ./internal/mustrun -suites .ci/suites
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	suites := flag.String("suites", ".ci/suites", "`file` of packages that must run and skips that may be")
	strict := flag.Bool("strict", os.Getenv("CI") == "true", "fail on what did not run")
	flag.Parse()
	ok, err := run(os.Stdin, os.Stdout, *suites, *strict)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mustrun:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run reports whether the tests passed and, if strict, whether all required ones
// ran.
func run(in io.Reader, out io.Writer, suites string, strict bool) (bool, error) {
	text, err := os.ReadFile(suites)
	if err != nil {
		return false, err
	}
	expected, err := parse(bytes.NewReader(text))
	if err != nil {
		return false, fmt.Errorf("%s: %w", suites, err)
	}
	seen, err := replay(in, out)
	if err != nil {
		return false, err
	}
	gaps := expected.gaps(seen)
	for _, gap := range gaps {
		fmt.Fprintln(out, "mustrun:", gap)
	}
	if seen.failed || strict && len(gaps) > 0 {
		fmt.Fprintln(out, "FAIL")
		return false, nil
	}
	return true, nil
}
