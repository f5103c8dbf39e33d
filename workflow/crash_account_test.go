package workflow_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

// crashCounts is what came of the kills. The first two must be zero.
type crashCounts struct {
	repeats     int // requests for an answer that was in the log
	differences int // other faults: in requests, tools, the end of the run and its files

	kills, lost int // lost: requests for an answer that was asked for before and not in the log
}

func (c *crashCounts) add(d crashCounts) {
	c.repeats += d.repeats
	c.differences += d.differences
	c.kills += d.kills
	c.lost += d.lost
}

// account compares what the processes of a run did with an undisturbed run.
func (r *crashRun) account() (crashCounts, error) {
	c := crashCounts{kills: r.kills}
	repeats := r.accountRequests(&c)
	differences, err := r.accountTools()
	if err != nil {
		return c, err
	}
	differences = append(differences, r.accountConversations()...)
	if r.plan.end != nil {
		end, err := r.end()
		if err != nil {
			return c, err
		}
		differences = append(differences, end.differ(*r.plan.end)...)
	}
	c.repeats, c.differences = len(repeats), len(differences)
	return c, errors.Join(append(repeats, differences...)...)
}

// accountRequests finds answers that were asked for although the log had them.
func (r *crashRun) accountRequests(c *crashCounts) (faults []error) {
	before := map[string]bool{}
	for _, a := range r.requests() {
		if r.lives[a.life].answered[a.key] {
			faults = append(faults, fmt.Errorf("process %d asked for %s, which the log answers", a.life, a.key))
		}
		if before[a.key] {
			c.lost++
		}
		before[a.key] = true
	}
	return faults
}

// accountConversations finds requests that an undisturbed run does not make,
// or makes and this one did not, or that one process made twice, or that were
// made again with another system prompt.
func (r *crashRun) accountConversations() (faults []error) {
	type once struct {
		life int
		key  string
	}
	made, systems := map[once]bool{}, map[string]string{}
	for _, a := range r.requests() {
		at := once{a.life, a.key}
		if made[at] {
			faults = append(faults, fmt.Errorf("process %d asked for %s twice", a.life, a.key))
		}
		made[at] = true
		if told, again := systems[a.key]; again && told != a.system {
			faults = append(faults, fmt.Errorf("%s was asked for with %q and with %q", a.key, told, a.system))
		}
		systems[a.key] = a.system
	}
	if r.plan.keys == nil {
		return faults
	}
	for key := range systems {
		if !r.plan.keys[key] {
			faults = append(faults, fmt.Errorf("%s is asked for by no undisturbed run", key))
		}
	}
	for key := range r.plan.keys {
		if _, asked := systems[key]; !asked {
			faults = append(faults, fmt.Errorf("%s was never asked for", key))
		}
	}
	return faults
}

// accountTools finds tool calls that ran although the log had their result,
// and those that never did.
func (r *crashRun) accountTools() (faults []error, err error) {
	traces, err := r.traces()
	if err != nil {
		return nil, err
	}
	ended := map[string]bool{}
	for _, t := range traces {
		if r.lives[t.life].finished[t.call] {
			faults = append(faults, fmt.Errorf("process %d ran %s, whose result is in the log", t.life, t.call))
		}
		ended[t.call] = ended[t.call] || t.what == "ended"
	}
	for call := range inLog(r.after).finished {
		if !ended[call] {
			faults = append(faults, fmt.Errorf("%s has a result and never ran to its end", call))
		}
	}
	return faults, nil
}

// ending is all that a run leaves behind, without its times.
type ending struct {
	state      string
	transcript map[string]string // by unit
	ledger     string
	notes      string
	artifacts  map[string]string
}

func (r *crashRun) end() (e ending, err error) {
	if e.state, err = r.state(); err != nil {
		return e, err
	}
	e.transcript = map[string]string{}
	for _, m := range r.after.Messages() {
		line := fmt.Sprintf("%s %s %q", m.Lane, m.Role, m.Content.Text())
		for _, call := range m.ToolCalls {
			line += fmt.Sprintf(" calls %s %s", call.ID, call.Arguments)
		}
		if m.ToolResult != nil {
			line += fmt.Sprintf(" result %s %q %t", m.ToolResult.CallID, m.ToolResult.Content, m.ToolResult.IsError)
		}
		e.transcript[m.Unit] += line + "\n"
	}
	e.ledger = ledger(r.after)
	if e.notes, err = r.notes(); err != nil {
		return e, err
	}
	e.artifacts, err = r.artifacts()
	return e, err
}

// state is the state of the run as other programs see it.
func (r *crashRun) state() (string, error) {
	st, err := workflow.Project(r.after)
	if err != nil {
		return "", err
	}
	pattern, err := st.Pattern.MarshalJSON()
	if err != nil {
		return "", err
	}
	artifacts := make([]string, len(st.Artifacts))
	for i, path := range st.Artifacts {
		if artifacts[i], err = filepath.Rel(r.job.Dir, path); err != nil {
			return "", err
		}
	}
	failure := ""
	if st.Metadata.Error != nil {
		failure = *st.Metadata.Error
	}
	return fmt.Sprintf("version %d, %s %q %s\n%s\n%+v %+v\n%s: %s\n%d open, %v", r.after.Version(), st.Metadata.Status, failure,
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
		case session.QuestionPut:
			lines = append(lines, fmt.Sprintf("%s %s %q", c.Kind(), c.Question.Unit, c.Question.Prompt))
		case session.QuestionAnswered:
			lines = append(lines, fmt.Sprintf("%s %s %q", c.Kind(), c.Unit, c.Response))
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
func (r *crashRun) notes() (string, error) {
	raw, err := os.ReadFile(filepath.Join(r.job.Dir, notesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	text := noteTime.ReplaceAllString(string(raw), "TIME")
	if r.plan.concurrent {
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
func (r *crashRun) artifacts() (map[string]string, error) {
	held, root := map[string]string{}, filepath.Join(r.job.Dir, outDir)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		held[strings.TrimPrefix(path, root)] = string(raw)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return held, nil
	}
	return held, err
}

// differ says in what an ending is not the other.
func (e ending) differ(want ending) (faults []error) {
	differs := func(what, got, want string) {
		if got != want {
			faults = append(faults, fmt.Errorf("%s differs, besides the same lines:\n%s\nwant\n%s", what, without(got, want), without(want, got)))
		}
	}
	differs("the state", e.state, want.state)
	differs("the ledger", e.ledger, want.ledger)
	differs("the notes", e.notes, want.notes)
	for _, unit := range slices.Sorted(maps.Keys(merged(e.transcript, want.transcript))) {
		differs("the messages of "+unit, e.transcript[unit], want.transcript[unit])
	}
	for _, path := range slices.Sorted(maps.Keys(merged(e.artifacts, want.artifacts))) {
		differs("artifact "+path, e.artifacts[path], want.artifacts[path])
	}
	return faults
}

// without are the lines of a text that another does not have as often.
func without(text, other string) string {
	often := map[string]int{}
	for line := range strings.Lines(other) {
		often[line]++
	}
	var rest strings.Builder
	for line := range strings.Lines(text) {
		if often[line]--; often[line] < 0 {
			rest.WriteString(line)
		}
	}
	return rest.String()
}

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
