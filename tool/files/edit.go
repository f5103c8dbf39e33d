package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/regular"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

type editArguments struct {
	Path string `json:"path" jsonschema:"the file, relative to the workspace"`
	Old  string `json:"old" jsonschema:"the text to replace, exactly as it stands in the file"`
	New  string `json:"new" jsonschema:"what to put there"`
	All  bool   `json:"all,omitempty" jsonschema:"replace it wherever it stands; without this it must stand there once"`
}

func (w *Workspace) editTool() (tool.Tool, error) {
	return tool.Func(tool.Spec{
		Name: "file_edit", Effects: tool.Read | tool.Write, Nature: tool.Once, Timeout: timeout, Diff: previewed(w.editedTexts),
		Description: "Replace a piece of a file of the workspace by another. The piece must match exactly, white space included, and stand there once; a few lines around the change make it so.",
	}, w.edit)
}

func (w *Workspace) edit(ctx context.Context, in editArguments) (string, error) {
	w, name, leave, err := w.enterChangeable(ctx, in.Path)
	if err != nil {
		return "", err
	}
	defer leave()
	w.write.Lock()
	defer w.write.Unlock()
	if name, err = w.followLinks(name); err != nil {
		return "", err
	}
	before, after, places, err := w.replaced(name, in)
	if err != nil {
		return "", err
	}
	if _, err := regular.Replace(w.root, name, w.shown(name), []byte(after)); err != nil {
		return "", err
	}
	if len(places) == 1 {
		return fmt.Sprintf("Replaced it in %s at line %d.", w.shown(name), lineAt(before, places[0])), nil
	}
	return fmt.Sprintf("Replaced it in %s %d times.", w.shown(name), len(places)), nil
}

// replaced returns a file's text before and after an edit, and where it was
// changed.
func (w *Workspace) replaced(name string, in editArguments) (before, after string, places []int, err error) {
	switch in.Old {
	case "":
		return "", "", nil, &session.InvalidError{Field: "old", Reason: "is empty; file_write makes a file"}
	case in.New:
		return "", "", nil, &session.InvalidError{Field: "new", Reason: "is the same as old"}
	}
	raw, err := w.content(name)
	if err != nil {
		return "", "", nil, err
	}
	if binary(raw) {
		return "", "", nil, fmt.Errorf("%s is binary", w.shown(name))
	}
	text, old, to := string(raw), in.Old, in.New
	if strings.Contains(text, "\r\n") && !strings.Contains(old, "\r") {
		// file_read shows such lines without the return.
		old, to = strings.ReplaceAll(old, "\n", "\r\n"), strings.ReplaceAll(strings.ReplaceAll(to, "\r\n", "\n"), "\n", "\r\n")
	}
	places = occurrences(text, old)
	switch {
	case len(places) == 0:
		return "", "", nil, errors.New(explainMissing(w.shown(name), text, in.Old))
	case len(places) > 1 && !in.All:
		return "", "", nil, fmt.Errorf("it stands in %s %d times, at lines %s; add lines around it, or set all", w.shown(name), len(places), someLines(text, places))
	}
	after = strings.ReplaceAll(text, old, to)
	if size := int64(len(after)); size > w.config.MaxFile {
		return "", "", nil, &regular.TooLongError{Name: w.shown(name), Size: size, Most: w.config.MaxFile}
	}
	return text, after, places, nil
}

// occurrences lists where a piece begins, without overlap.
func occurrences(text, piece string) []int {
	var found []int
	for from := 0; ; {
		i := strings.Index(text[from:], piece)
		if i < 0 {
			return found
		}
		found = append(found, from+i)
		from += i + len(piece)
	}
}

func lineAt(text string, at int) int { return strings.Count(text[:at], "\n") + 1 }

// someLines names the lines of the first places.
func someLines(text string, places []int) string {
	const most = 10
	var b strings.Builder
	for i, at := range places[:min(len(places), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, lineAt(text, at))
	}
	if len(places) > most {
		b.WriteString(", …")
	}
	return b.String()
}

// maxCompared is the length in bytes up to which a file is searched for something
// similar.
const maxCompared = 1 << 20

// explainMissing says that a piece is not in a text, and what is there instead:
// the same lines with other white space, or the lines most like its first.
func explainMissing(name, text, piece string) string {
	notFound := "it does not stand in " + name
	if len(text) > maxCompared {
		return notFound
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	wanted := strings.Split(strings.Trim(strings.ReplaceAll(piece, "\r\n", "\n"), "\n"), "\n")
	if at := sameWords(lines, wanted); at >= 0 {
		return fmt.Sprintf("%s exactly; line %d has other white space:\n%s", notFound, at+1, excerpt(lines, at, len(wanted)))
	}
	near := similar(lines, wanted)
	if len(near) == 0 {
		return notFound + ", nor anything like it"
	}
	slices.Sort(near)
	shown := make([]string, len(near))
	for i, at := range near {
		shown[i] = excerpt(lines, at, min(len(wanted), 3))
	}
	return notFound + "; most like it:\n" + strings.Join(shown, "\n--\n")
}

// sameWords finds the lines that differ from the wanted ones in white space only,
// or returns -1.
func sameWords(lines, wanted []string) int {
	folded := make([]string, len(wanted))
	for i, line := range wanted {
		folded[i] = strings.Join(strings.Fields(line), " ")
	}
	if strings.Join(folded, "") == "" {
		return -1
	}
	for at := 0; at+len(folded) <= len(lines); at++ {
		same := true
		for i := 0; same && i < len(folded); i++ {
			same = strings.Join(strings.Fields(lines[at+i]), " ") == folded[i]
		}
		if same {
			return at
		}
	}
	return -1
}

// excerpt returns some lines with their numbers.
func excerpt(lines []string, at, n int) string {
	const most = 12
	var b strings.Builder
	for i := at; i < min(at+min(n, most), len(lines)); i++ {
		fmt.Fprintf(&b, "%6d  %s\n", i+1, clip(visible(lines[i]), 200))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// similar finds the at most three lines where a piece was most likely meant:
// those most like its first line that is not blank.
func similar(lines, wanted []string) []int {
	const enough, most = 0.5, 3
	lead := slices.IndexFunc(wanted, func(s string) bool { return strings.TrimSpace(s) != "" })
	if lead < 0 {
		return nil
	}
	type candidate struct {
		at    int
		score float64
	}
	model := pairs(wanted[lead])
	var found []candidate
	for i, line := range lines {
		if score := similarity(model, pairs(line)); score >= enough {
			found = append(found, candidate{max(i-lead, 0), score})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	var at []int
	for _, c := range found[:min(len(found), most)] {
		at = append(at, c.at)
	}
	return at
}

// pairs counts the neighbouring characters of a line, white space aside.
func pairs(line string) map[[2]rune]int {
	found := map[[2]rune]int{}
	last := rune(-1)
	for _, r := range clip(strings.Join(strings.Fields(line), ""), 500) {
		found[[2]rune{last, r}]++
		last = r
	}
	return found
}

// similarity returns how much two lines share: 0 nothing, 1 everything.
func similarity(a, b map[[2]rune]int) float64 {
	shared, all := 0, 0
	for pair, n := range a {
		shared += min(n, b[pair])
		all += n
	}
	for _, n := range b {
		all += n
	}
	if all == 0 {
		return 0
	}
	return 2 * float64(shared) / float64(all)
}
