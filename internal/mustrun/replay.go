package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is one line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// test names one test of one package; an empty name is the package itself.
type test struct{ pkg, name string }

// results are what a run of the tests came to.
type results struct {
	failed bool
	passed map[string]int    // tests that passed, by package
	skips  map[test]string   // reasons of skipped tests
	done   map[string]string // last action of each package
}

// replay prints the closing line of each package and, of a package that
// failed, everything the failed tests and the package itself said. Lines that
// are not events are printed as they are.
func replay(in io.Reader, out io.Writer) (results, error) {
	r := results{passed: map[string]int{}, skips: map[test]string{}, done: map[string]string{}}
	said := map[test]*strings.Builder{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(out, line)
			} else {
				r.take(e, said, out)
			}
		}
		if err == io.EOF {
			return r, nil
		}
		if err != nil {
			return r, fmt.Errorf("read test events: %w", err)
		}
	}
}

// take notes one event.
func (r *results) take(e event, said map[test]*strings.Builder, out io.Writer) {
	key := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "build-fail":
		r.failed = true
	case "output":
		if said[key] == nil {
			said[key] = &strings.Builder{}
		}
		said[key].WriteString(e.Output)
	case "pass", "fail", "skip":
		text := ""
		if b := said[key]; b != nil {
			text = b.String()
		}
		delete(said, key)
		if e.Test == "" {
			r.done[e.Package] = e.Action
			r.failed = r.failed || e.Action == "fail"
			fmt.Fprint(out, closing(e.Action, text))
			return
		}
		switch e.Action {
		case "pass":
			r.passed[e.Package]++
		case "skip":
			r.skips[key] = reason(text)
		case "fail":
			fmt.Fprint(out, text)
		}
	}
}

// closing is what go test prints of a package: its last line when it passed,
// all it said when it failed.
func closing(action, text string) string {
	if action == "fail" {
		return text
	}
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// reason is what a skipped test said, without the frame go test puts around it.
func reason(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, " / ")
}
