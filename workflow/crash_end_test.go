package workflow_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

// leftBy is all that a run leaves behind, without its times.
func (s crashSpec) leftBy(r *crashtest.Run) (crashtest.Parts, error) {
	end, ok := r.Last.State.(session.Session)
	if !ok {
		return nil, errors.New("the run has left nothing")
	}
	state, err := publicState(r.Dir, end)
	notes, notesErr := s.notes(r.Dir)
	parts, filesErr := artifacts(r.Dir)
	if err := errors.Join(err, notesErr, filesErr); err != nil {
		return nil, err
	}
	parts["the state"], parts["the ledger"], parts["the notes"] = state, ledger(end), notes
	for _, m := range end.Messages() {
		line := fmt.Sprintf("%s %s %q", m.Lane, m.Role, m.Content.Text())
		for _, call := range m.ToolCalls {
			line += fmt.Sprintf(" calls %s %s", call.ID, call.Arguments)
		}
		if m.ToolResult != nil {
			line += fmt.Sprintf(" result %s %q %t", m.ToolResult.CallID, m.ToolResult.Content, m.ToolResult.IsError)
		}
		parts["the messages of "+m.Unit] += line + "\n"
	}
	return parts, nil
}

// publicState is the state of the run as other programs see it.
func publicState(dir string, s session.Session) (string, error) {
	st, err := workflow.Project(s)
	if err != nil {
		return "", err
	}
	pattern, err := st.Pattern.MarshalJSON()
	if err != nil {
		return "", err
	}
	artifacts := make([]string, len(st.Artifacts))
	for i, path := range st.Artifacts {
		if artifacts[i], err = filepath.Rel(dir, path); err != nil {
			return "", err
		}
	}
	failure := ""
	if st.Metadata.Error != nil {
		failure = *st.Metadata.Error
	}
	return fmt.Sprintf("version %d, %s %q %s\n%s\n%+v %+v\n%s: %s\n%d open, %v", s.Version(), st.Metadata.Status, failure,
		st.Metadata.PatternType, pattern, st.Usage, st.Agents, st.Agent, st.Final, len(st.Open), artifacts), nil
}

// ledger is what happened, in no order: units work at the same time. That a
// tool began may be there again.
func ledger(s session.Session) string {
	var lines []string
	for _, record := range s.Ledger() {
		switch c := record.Change.(type) {
		case session.UnitStarted:
			lines = append(lines, c.Kind()+" "+c.Unit)
		case session.UnitFinished:
			lines = append(lines, fmt.Sprintf("%s %s %s", c.Kind(), c.Unit, c.Result))
		case session.UnitAdvanced:
			if _, began := c.Change.(session.ToolStarted); !began {
				lines = append(lines, fmt.Sprintf("%s %s %s", c.Kind(), c.Unit, c.Change.Kind()))
			}
		case session.CallPending:
			lines = append(lines, fmt.Sprintf("%s %s %s %q", c.Kind(), c.Call.Kind, c.Call.Unit, c.Call.Prompt))
		case session.CallResponded:
			lines = append(lines, fmt.Sprintf("%s %s %s %q", c.Kind(), c.Unit, c.Response.Action, c.Response.Text))
		default:
			lines = append(lines, c.Kind())
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

var (
	noteTime   = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^ "]*( UTC)?`)
	noteNumber = regexp.MustCompile(`step"?:? ?\d+`)
)

// notes are the entries of the notes file, without their times and in no
// order; where units work at the same time also without their numbers.
func (s crashSpec) notes(dir string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, notesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	text := noteTime.ReplaceAllString(string(raw), "TIME")
	if s.concurrent {
		text = noteNumber.ReplaceAllString(text, "step N")
	}
	var entries []string
	for line := range strings.Lines(text) {
		if noteHead.MatchString(line) || strings.HasPrefix(line, `{"timestamp"`) || len(entries) == 0 {
			entries = append(entries, "")
		}
		entries[len(entries)-1] += line
	}
	slices.Sort(entries)
	return strings.Join(entries, ""), err
}

// artifacts are the files of the output directory with what they hold.
func artifacts(dir string) (crashtest.Parts, error) {
	held, root := crashtest.Parts{}, filepath.Join(dir, outDir)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		held["artifact "+strings.TrimPrefix(path, root)] = string(raw)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return held, nil
	}
	return held, err
}
