package claudecode_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/claudecode"
	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

// said is a line with a message of a person, behind another.
func said(id, parent, content string) string {
	return fmt.Sprintf(`{"type":"user","uuid":%q,"parentUuid":%q,"sessionId":"s","timestamp":"2026-01-02T10:00:00Z","message":{"role":"user","content":%s}}`, id, parent, content)
}

func TestRead_namesTheLine(t *testing.T) {
	t.Parallel()
	whole := said("a", "", `"x"`) + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"the first is broken":      {"{\"type\":\n" + whole, "(line 1): it is not JSON"},
		"one behind empty lines":   {whole + "\n\n{bad\n" + whole, "(line 4): it is not JSON"},
		"no object":                {whole + "[1]\n" + whole, "(line 2): it is of the wrong type: array"},
		"two values":               {whole + "{}{}\n" + whole, "(line 2): it is not JSON"},
		"a number for a text":      {whole + `{"type":"user","uuid":7}` + "\n" + whole, "(line 2): uuid is of the wrong type: number"},
		"a time that is none":      {whole + strings.Replace(whole, "2026-01-02T", "yesterday ", 1), "(line 2): parsing time"},
		"a role of nobody":         {whole + strings.Replace(whole, `"role":"user"`, `"role":"king"`, 1), `(line 2): the role "king"`},
		"an earlier line, cut off": {whole + `{"type":"us` + "\n" + whole, "(line 2): it is not JSON"},
	} {
		if !claudecode.Detect([]byte(c.text)) {
			t.Errorf("%s: it is not detected", name)
		}
		if _, err := claudecode.Read([]byte(c.text)); !errors.Is(err, session.ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRead_whatIsOddIsToldOrTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, told, said string }{
		"parents in a circle":      {said("a", "b", `"one"`) + "\n" + said("b", "a", `"two"`), "", "one two"},
		"its own parent":           {said("a", "a", `"one"`), "", "one"},
		"the same id twice":        {said("a", "", `"one"`) + "\n" + said("a", "a", `"two"`), "", "one two"},
		"wrong UTF-8":              {said("a", "", "\"one \xff\xfe\""), "", "one \ufffd\ufffd"},
		"a result without a call":  {said("a", "", `"one"`) + "\n" + said("b", "a", `[{"type":"tool_result","tool_use_id":"t","content":"r"}]`), "results without a call: 1", "one"},
		"an unknown part":          {said("a", "", `[{"type":"hologram"},{"type":"text","text":"one"}]`), "message.content of the type hologram", "one"},
		"content of no known form": {said("a", "", `"one"`) + "\n" + said("b", "a", `{"x":1}`), "neither text nor blocks", "one"},
		"the last line cut off":    {said("a", "", `"one"`) + "\n" + `{"type":"us`, "cut off: line 2", "one"},
		"zeros at the end":         {said("a", "", `"one"`) + "\n\x00\x00", "cut off: line 2", "one"},
		"many lines before":        {strings.Repeat(`{"type":"file-history-snapshot"}`+"\n", 300) + said("a", "", `"one"`), "file-history-snapshot", "one"},
	} {
		if !claudecode.Detect([]byte(c.text)) {
			t.Errorf("%s: it is not detected", name)
		}
		s, report := imported(t, c.text)
		var texts []string
		for _, m := range s.Messages() {
			texts = append(texts, m.Content.Text())
		}
		if got := strings.Join(texts, " "); got != c.said {
			t.Errorf("%s: said %q", name, got)
		}
		if told := strings.Join(append(report.Notes, report.Dropped...), "; "); !strings.Contains(told, c.told) {
			t.Errorf("%s: the report is %q", name, told)
		}
	}
}

func imported(t *testing.T, text string) (session.Session, foreign.Report) {
	t.Helper()
	c, err := claudecode.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, report, err := c.Session(foreign.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s, report
}

func TestRead_tenThousandMessages(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	parent := ""
	for i := range 5000 {
		call := fmt.Sprintf(`{"type":"assistant","uuid":"c%d","parentUuid":"u%d","sessionId":"s","timestamp":"2026-01-02T10:00:00Z","message":{"id":"m%d","role":"assistant","content":[{"type":"tool_use","id":"t%d","name":"Bash","input":{}}]}}`, i, i, i, i)
		text.WriteString(said(fmt.Sprintf("u%d", i), parent, `"x"`) + "\n" + call + "\n")
		parent = fmt.Sprintf("c%d", i)
	}
	s, _ := imported(t, text.String())
	if n := len(s.Messages()); n != 15000 { // each call has a result that says that it has none
		t.Errorf("%d messages", n)
	}
}

// Whatever a file has, it is refused as corrupt or becomes a valid conversation
// without the secret that is in it.
func FuzzRead(f *testing.F) {
	f.Add([]byte(transcript))
	f.Add([]byte(said("a", "b", `"one"`) + "\n" + said("b", "a", `[{"type":"tool_result","tool_use_id":"t","content":{"x":1}}]`)))
	f.Add([]byte("{\"type\":\n" + said("a", "", `null`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		claudecode.Detect(data)
		c, err := claudecode.Read(data)
		if err == nil {
			var s session.Session
			if s, _, err = c.Session(foreign.Options{}); err == nil {
				err = session.ValidTranscript(s.Messages())
				if err != nil {
					t.Fatalf("an invalid transcript: %v", err)
				}
			}
		}
		if err != nil && !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%v", err)
		}
	})
}
