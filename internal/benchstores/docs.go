package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// section is the part of performance.md that is written here.
var section = benchmark.SectionOf("make bench-stores")

// chartFile is the picture's name, beside the page.
const chartFile = "stores.svg"

// formatTables are the results as Markdown, a table for each store.
func formatTables(r Report) string {
	var b strings.Builder
	for i, s := range r.Stores {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "| %s | measured | target | | about | n |\n|---|---:|---:|---|---|---:|\n", benchmark.Cell(s.Store))
		for _, x := range s.Results {
			target, verdict := "–", x.Verdict()
			if x.Target != nil {
				target = x.Target.String()
			}
			if verdict == "missed" {
				verdict = "**missed**"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", benchmark.Cell(x.Name), x.format(), target, verdict, benchmark.Cell(x.About), benchmark.GroupDigits(int64(x.N)))
		}
	}
	return b.String()
}

// formatSection is all that is written into the page.
func formatSection(r Report) string {
	return fmt.Sprintf(`![The stores against their targets](%s)

Measured by %s on a machine with %d cores and a disk that takes about %s to flush 4 KiB, with %s.

%s`, chartFile, "`make bench-stores`", r.Machine.Cores, benchmark.AboutTime(r.Machine.Flush), r.Machine.Go, formatTables(r))
}

// publish writes the page and the chart.
func publish(page, chart string, r Report) error {
	if err := section.Write(page, formatSection(r)); err != nil {
		return err
	}
	return os.WriteFile(chart, []byte(drawChart(r)), 0o644)
}
