package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// medians returns those of a contender's samples; false: it has none.
func (r Row) medians(contender int) (took, cpu time.Duration, ok bool) {
	if contender >= len(r.Samples) || len(r.Samples[contender]) == 0 {
		return 0, 0, false
	}
	var times, used []time.Duration
	for _, s := range r.Samples[contender] {
		times, used = append(times, s.Took), append(used, s.CPU)
	}
	return benchmark.Median(times), benchmark.Median(used), true
}

// stores lists the stores of a report in its order.
func (r Report) stores() []string {
	var found []string
	for _, x := range r.Rows {
		if !slices.Contains(found, x.Store) {
			found = append(found, x.Store)
		}
	}
	return found
}

// present reports whether a contender did anything on a store.
func (r Report) present(store string, contender int) bool {
	return slices.ContainsFunc(r.Rows, func(x Row) bool {
		_, _, ok := x.medians(contender)
		return ok && x.Store == store
	})
}

// formatTables writes the results as Markdown, a table for each store: the median
// time, and that of the processor in brackets.
func formatTables(r Report) string {
	var b strings.Builder
	for i, store := range r.stores() {
		if i > 0 {
			b.WriteString("\n")
		}
		head, line := "| "+store+" |", "|---|"
		for c, contender := range r.Contenders {
			if r.present(store, c) {
				head, line = head+" "+benchmark.Cell(contender.Name)+" |", line+"---:|"
			}
		}
		b.WriteString(head + "\n" + line + "\n")
		for _, x := range r.Rows {
			if x.Store != store {
				continue
			}
			fmt.Fprintf(&b, "| %s |", benchmark.Cell(x.Name))
			for c := range r.Contenders {
				if !r.present(store, c) {
					continue
				}
				if took, cpu, ok := x.medians(c); ok {
					fmt.Fprintf(&b, " %s (%s) |", benchmark.AboutTime(took), benchmark.AboutTime(cpu))
				} else {
					b.WriteString(" – |")
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// formatSection is what is written into the page about performance.
func formatSection(r Report) string {
	var versions []string
	for _, c := range r.Contenders[1:] {
		versions = append(versions, c.Name+" "+c.Version)
	}
	return fmt.Sprintf(`![Holdfast beside others](%s)

Measured by %s on a machine with %d cores and a disk that takes about %s to flush 4 KiB, with %s, %s. The median time of an
operation, and in brackets the processor's time in the process of the library, without that of a database server.

%s`, chartFile, "`make bench-peers`", r.Machine.Cores, benchmark.AboutTime(r.Machine.Flush), r.Machine.Go, strings.Join(versions, " and "), formatTables(r))
}

// shortRows are those that a reader of the README sees, also where others are faster.
var shortRows = []string{"list", "create", "append", "append.8", "load", "turn"}

// formatShort is what is written into the README.
func formatShort(r Report) string {
	var b strings.Builder
	b.WriteString("| median time |")
	for _, c := range r.Contenders {
		fmt.Fprintf(&b, " %s |", benchmark.Cell(c.Name))
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(r.Contenders)) + "\n")
	for _, x := range r.Rows {
		if !slices.Contains(shortRows, x.Key) {
			continue
		}
		fmt.Fprintf(&b, "| %s, %s |", x.Store, benchmark.Cell(x.Name))
		for c := range r.Contenders {
			if took, _, ok := x.medians(c); ok {
				fmt.Fprintf(&b, " %s |", benchmark.AboutTime(took))
			} else {
				b.WriteString(" – |")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
