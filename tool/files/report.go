package files

import (
	"fmt"
	"strings"
)

// report collects the lines of a result up to a length, and says what is missing.
type report struct {
	most  int
	lines strings.Builder
	count int // lines that were to be shown
	shown int
	notes []string
}

// add shows a line, unless there is no room for it or was none for an earlier
// one: what is shown has no gap.
func (r *report) add(line string) {
	if r.shown == r.count && r.lines.Len()+len(line) < r.most {
		r.lines.WriteString(line + "\n")
		r.shown++
	}
	r.count++
}

func (r *report) note(format string, args ...any) {
	r.notes = append(r.notes, "["+fmt.Sprintf(format, args...)+"]\n")
}

// text returns the lines and the notes; what names the lines.
func (r *report) text(what string) string {
	if r.shown < r.count {
		r.note("cut: the first %d of %d %s", r.shown, r.count, what)
	}
	return r.lines.String() + strings.Join(r.notes, "")
}
