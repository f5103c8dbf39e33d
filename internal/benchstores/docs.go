package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// What lies between these two lines of performance.md is written here.
const (
	beginMark = "<!-- begin of what make bench-stores writes -->"
	endMark   = "<!-- end of what make bench-stores writes -->"
)

// chartFile is the picture's name, beside the page.
const chartFile = "stores.svg"

// formatTables are the results as Markdown, a table for each store.
func formatTables(r Report) string {
	var b strings.Builder
	for i, s := range r.Stores {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "| %s | measured | target | | about | n |\n|---|---:|---:|---|---|---:|\n", cell(s.Store))
		for _, x := range s.Results {
			target, verdict := "–", x.Verdict()
			if x.Target != nil {
				target = x.Target.String()
			}
			if verdict == "missed" {
				verdict = "**missed**"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", cell(x.Name), x.format(), target, verdict, cell(x.About), groupDigits(int64(x.N)))
		}
	}
	return b.String()
}

// cell is text that cannot end its cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

// formatSection is all that is written into the page.
func formatSection(r Report) string {
	return fmt.Sprintf(`![The stores against their targets](%s)

Measured by %s on a machine with %d cores and a disk that takes about %s to flush 4 KiB, with %s.

%s`, chartFile, "`make bench-stores`", r.Machine.Cores, aboutTime(r.Machine.Flush), r.Machine.Go, formatTables(r))
}

// replaceSection puts a section between the marks of a page, in the place of what is
// there.
func replaceSection(page, section string) (string, error) {
	before, rest, begun := strings.Cut(page, beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !begun || !ended || strings.Contains(before, endMark) || strings.Contains(after, beginMark) || strings.Contains(after, endMark) {
		return "", fmt.Errorf("the lines %q and %q are not there once each, in this order", beginMark, endMark)
	}
	return before + beginMark + "\n\n" + strings.TrimSpace(section) + "\n\n" + endMark + after, nil
}

// checkMarkers refuses a page that cannot be written to.
func checkMarkers(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	if _, err := replaceSection(string(text), ""); err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return nil
}

// publish writes the page and the chart.
func publish(page, chart string, r Report) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	next, err := replaceSection(string(text), formatSection(r))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return errors.Join(os.WriteFile(page, []byte(next), 0o644), os.WriteFile(chart, []byte(drawChart(r)), 0o644))
}
