package tools

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

type grepArguments struct {
	Pattern      string `json:"pattern" jsonschema:"a regular expression"`
	Path         string `json:"path" jsonschema:"the file, absolute or relative to the working directory"`
	ContextLines *int   `json:"context_lines,omitempty" jsonschema:"lines shown before and after a match; 3 where it is left out"`
	IgnoreCase   bool   `json:"ignore_case,omitempty"`
	MaxMatches   *int   `json:"max_matches,omitempty" jsonschema:"100 where it is left out"`
}

func (b *Box) grepTool() (tool.Tool, error) {
	return newTool(tool.Spec{
		Name: "grep", Nature: tool.ReadOnly,
		Description: "Find the lines of a text file that fit a regular expression, and show them with the lines around.",
	}, b.grep)
}

func (b *Box) grep(ctx context.Context, in grepArguments) (string, error) {
	around := valueOr(in.ContextLines, 3)
	if around < 0 || around > 1000 {
		return "", &session.InvalidError{Field: "context_lines", Reason: "is not from 0 to 1000"}
	}
	f := finder{path: in.Path, most: valueOr(in.MaxMatches, 100)}
	if err := f.compile("pattern", in.Pattern, in.IgnoreCase); err != nil {
		return "", err
	}
	if err := b.searchFile(ctx, &f); err != nil {
		return "", err
	}
	if len(f.hits) == 0 {
		return fmt.Sprintf("No match for %q in %s", in.Pattern, displayPath(in.Path)), nil
	}
	var out strings.Builder
	fmt.Fprintf(&out, "Found %d match(es) in %s:", len(f.hits), displayPath(in.Path))
	for i, hit := range f.hits {
		if out.Len() > maxText {
			f.cut = i
			break
		}
		fmt.Fprintf(&out, "\n\n--- Match at line %d ---", hit+1)
		for i := max(0, hit-around); i <= min(len(f.lines)-1, hit+around); i++ {
			mark := ' '
			if i == hit {
				mark = '>'
			}
			fmt.Fprintf(&out, "\n%c %4d | %s", mark, i+1, f.lines[i])
		}
	}
	out.WriteString(f.note())
	return out.String(), nil
}

type searchArguments struct {
	Query      string `json:"query" jsonschema:"what to look for"`
	Path       string `json:"path" jsonschema:"the file, absolute or relative to the working directory"`
	IsRegex    bool   `json:"is_regex,omitempty" jsonschema:"the query is a regular expression"`
	IgnoreCase *bool  `json:"ignore_case,omitempty" jsonschema:"true where it is left out"`
	MaxMatches *int   `json:"max_matches,omitempty" jsonschema:"lines to show; 50 where it is left out"`
}

func (b *Box) searchTool() (tool.Tool, error) {
	return newTool(tool.Spec{
		Name: "search", Nature: tool.ReadOnly,
		Description: "Find a text in a text file and show the lines it is in, with >>> and <<< around it.",
	}, b.search)
}

func (b *Box) search(ctx context.Context, in searchArguments) (string, error) {
	pattern := in.Query
	if !in.IsRegex {
		pattern = regexp.QuoteMeta(in.Query)
	}
	f := finder{path: in.Path, most: valueOr(in.MaxMatches, 50)}
	if err := f.compile("query", pattern, valueOr(in.IgnoreCase, true)); err != nil {
		return "", err
	}
	if err := b.searchFile(ctx, &f); err != nil {
		return "", err
	}
	if len(f.hits) == 0 {
		return fmt.Sprintf("No match for %q in %s", in.Query, displayPath(in.Path)), nil
	}
	var out strings.Builder
	for i, hit := range f.hits {
		if out.Len() > maxText {
			f.cut = i
			break
		}
		if i > 0 {
			out.WriteByte('\n')
		}
		marked := f.pattern.ReplaceAllStringFunc(f.lines[hit], func(text string) string { return ">>>" + text + "<<<" })
		fmt.Fprintf(&out, "%4d | %s", hit+1, marked)
	}
	out.WriteString(f.note())
	return out.String(), nil
}

// maxText is the length of a result after which no further match is added.
const maxText = 1 << 20

// finder looks for a pattern in the lines of a file.
type finder struct {
	path    string
	pattern *regexp.Regexp
	most    int

	lines []string
	hits  []int // indexes of the matching lines, at most most
	more  bool  // there are more hits
	cut   int   // how many hits are shown, if not all fit
}

// compile compiles a pattern of Go's regexp: its time is linear in the text, and
// it has no look-around and no backreferences.
func (f *finder) compile(field, pattern string, ignoreCase bool) error {
	if pattern == "" {
		return &session.InvalidError{Field: field, Reason: "is empty"}
	}
	if f.most < 1 {
		return &session.InvalidError{Field: "max_matches", Reason: "is less than 1"}
	}
	if ignoreCase {
		pattern = "(?i)" + pattern
	}
	var err error
	if f.pattern, err = regexp.Compile(pattern); err != nil {
		return &session.InvalidError{Field: field, Reason: err.Error()}
	}
	return nil
}

func (b *Box) searchFile(ctx context.Context, f *finder) error {
	data, err := b.folders.read(f.path)
	if err != nil {
		return err
	}
	if f.lines, err = linesOf(f.path, data); err != nil {
		return err
	}
	for i, line := range f.lines {
		if i%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !f.pattern.MatchString(line) {
			continue
		}
		if len(f.hits) == f.most {
			f.more = true
			break
		}
		f.hits = append(f.hits, i)
	}
	return nil
}

// note says whether there are more matches than shown.
func (f *finder) note() string {
	switch {
	case f.cut > 0:
		return fmt.Sprintf("\n\n(Showing the first %d matches only: there is no room for more)", f.cut)
	case f.more:
		return fmt.Sprintf("\n\n(Showing the first %d matches only)", f.most)
	}
	return ""
}
