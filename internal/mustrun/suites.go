package main

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

const module = "github.com/holdfast-dev/holdfast"

// suites is the content of a suites file.
type suites struct {
	run  []string // import paths of packages whose tests must have run
	skip []allowedSkip
}

// allowedSkip allows skips in a package whose reason contains a text.
type allowedSkip struct{ pkg, text string }

// parse reads a suites file: lines "run FOLDER" and "skip FOLDER TEXT"; #
// begins a comment line.
func parse(in io.Reader) (suites, error) {
	var s suites
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		folder, text, _ := strings.Cut(strings.TrimSpace(rest), " ")
		pkg, text := path.Join(module, folder), strings.TrimSpace(text)
		switch {
		case word == "run" && folder != "" && text == "":
			s.run = append(s.run, pkg)
		case word == "skip" && text != "":
			s.skip = append(s.skip, allowedSkip{pkg, text})
		default:
			return s, fmt.Errorf("line %d: %q is neither \"run FOLDER\" nor \"skip FOLDER TEXT\"", n, line)
		}
	}
	return s, lines.Err()
}

// gaps lists required tests that did not run, sorted.
func (s suites) gaps(r results) []string {
	var gaps []string
	for _, pkg := range s.run {
		if r.passed[pkg] == 0 && r.done[pkg] != "fail" {
			gaps = append(gaps, pkg+": no test ran")
		}
	}
	for pkg := range r.passed {
		if !slices.Contains(s.run, pkg) {
			gaps = append(gaps, pkg+": has tests and is not in the suites file")
		}
	}
	for t, why := range r.skips {
		if !slices.ContainsFunc(s.skip, func(a allowedSkip) bool { return a.pkg == t.pkg && strings.Contains(why, a.text) }) {
			gaps = append(gaps, fmt.Sprintf("%s: %s was skipped: %s", t.pkg, t.name, why))
		}
	}
	slices.Sort(gaps)
	return gaps
}
