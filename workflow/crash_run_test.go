package workflow_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// What a run leaves in its directory.
const (
	specFile  = "spec.yaml"
	itemsFile = "items.jsonl"
	notesFile = "notes.md"
	outDir    = "out"
)

// crashSpec is a spec whose runs are crashed.
type crashSpec struct {
	name, pattern string
	concurrent    bool              // units work at the same time
	answers       map[string]string // of persons, by unit
	minor         bool              // another has the same pattern
	summarised    bool              // agents are shown summaries
	remote        bool              // answers come through the inbox, and calls of units wait too
	items         bool              // it has a file of items
	after         string            // what is done with a run that is there already
	spec          string            // its file; empty: as its name
}

func (s crashSpec) file(ext string) string {
	return filepath.Join("testdata", "crash", cmp.Or(s.spec, s.name)+ext)
}

// crashSpecs are all patterns, and all places where persons are asked. One has
// units whose calls wait: for an answer, an approval and a client's result.
var crashSpecs = []crashSpec{
	{name: "chain", pattern: "chain", answers: map[string]string{"step/1": "yes"}},
	{name: "summary", pattern: "chain", minor: true, summarised: true},
	{name: "workflow", pattern: "workflow", concurrent: true, answers: map[string]string{"task/ask": "yes"}},
	{name: "wait", pattern: "parallel", minor: true, concurrent: true, remote: true, answers: map[string]string{"branch/left/step/1": "it is"}},
	{name: "routing", pattern: "routing", answers: map[string]string{
		"router/review": "approved", "route/billing/step/1": "yes", "route/billing/step/3": "that is all",
	}},
	{name: "parallel", pattern: "parallel", concurrent: true, answers: map[string]string{"branch/left/step/1": "left is fine", "branch/right/step/1": ""}},
	{name: "parallel-human", pattern: "parallel", minor: true, concurrent: true, answers: map[string]string{"reduce": "both"}},
	{name: "each", pattern: "parallel", minor: true, concurrent: true, items: true},
	{name: "evaluator", pattern: "evaluator_optimizer", answers: map[string]string{"gate/2": "go on"}},
	{name: "orchestrator", pattern: "orchestrator_workers", concurrent: true, answers: map[string]string{
		"plan/review": "fine", "reduce/review": "good", "writeup": "the end",
	}},
	{name: "orchestrator-human", pattern: "orchestrator_workers", minor: true, concurrent: true, answers: map[string]string{"reduce": "in short"}},
	{name: "graph", pattern: "graph", answers: map[string]string{"node/check@1": "again", "node/check@2": "good"}},
	{name: "redo", pattern: "redo of a unit", spec: "chain", minor: true, after: afterRedo, answers: map[string]string{"step/1": "yes"}},
	{name: "fork", pattern: "fork with an edit", spec: "chain", minor: true, after: afterFork, answers: map[string]string{"step/1": "yes"}},
	{name: "cancel", pattern: "cancel", spec: "chain", minor: true, after: afterCancel},
}

// runJob is what the processes of a run are told.
type runJob struct {
	Answers map[string]string
	Remote  bool // answers come through the inbox
	After   string
	NoWait  bool // give up when another works on the run
}

// callResponses are the responses to the calls of units, by the tool.
var callResponses = map[string]session.Response{
	tool.AskPersonName: {Action: session.RespondAnswer, Text: "aisle"},
	"charge":           {Action: session.RespondApprove},
	"scan":             {Action: session.RespondResult, Text: "scanned"},
}

func (s crashSpec) scenario() *crashtest.Scenario {
	mostLost := 1
	if s.concurrent {
		mostLost = 0 // one for each unit
	}
	return &crashtest.Scenario{
		Name: "run", Row: s.pattern, Work: workOnRun, MostLost: mostLost,
		// The spec and its items are copies, which go when the run has begun.
		Prepare: func(ctx context.Context, r *crashtest.Run, st store.Store) (any, error) {
			err := copyTo(filepath.Join(r.Dir, specFile), s.file(".yaml"))
			if err == nil && s.items {
				err = copyTo(filepath.Join(r.Dir, itemsFile), s.file(".jsonl"))
			}
			if err == nil && s.after != "" {
				err = prepareRun(ctx, r, st, s.after)
			}
			return runJob{Answers: s.answers, Remote: s.remote, After: s.after}, err
		},
		Reply: replyToRun,
		Load:  loadRun,
		CheckEnd: func(r, undisturbed *crashtest.Run) []error {
			got, err := s.leftBy(r)
			want, undisturbedErr := s.leftBy(undisturbed)
			if err != nil || undisturbedErr != nil {
				return []error{err, undisturbedErr}
			}
			return append(got.Differ(want), s.checkAfter(undisturbed))
		},
	}
}

func copyTo(to, from string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, raw, 0o600)
}

// loadRun reads the run as the next process would find it. From its begin on
// the store is all that a process needs.
func loadRun(ctx context.Context, r *crashtest.Run, st store.Store) (f crashtest.Found, err error) {
	rt, err := holdfast.New(holdfast.Config{Store: st})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	s, err := rt.Get(ctx, r.ID, holdfast.Whole(), holdfast.WithTail())
	if errors.Is(err, session.ErrNotFound) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	f = crashtest.Found{Answers: map[string]bool{}, Results: map[string]bool{}, State: s}
	for _, m := range s.Messages() {
		if m.Role == session.RoleAssistant {
			f.Answers[keyIn(m.Content.Text())] = true
		}
		if m.ToolResult != nil && callResponses[m.ToolResult.ToolName].Text == "" { // this program ran it
			f.Results[m.ToolResult.CallID] = true
		}
	}
	return f, errors.Join(os.RemoveAll(filepath.Join(r.Dir, specFile)), os.RemoveAll(filepath.Join(r.Dir, itemsFile)))
}

// workOnRun brings the run to its end, with the answers of the persons it asks.
func workOnRun(ctx context.Context, w *crashtest.Worker) (err error) {
	var j runJob
	if err := w.Job(&j); err != nil {
		return err
	}
	var dieAt files
	if _, err := fmt.Sscanf(w.KillAt(), filesPoint, &dieAt.notes, &dieAt.artifacts, &dieAt.temporary); err == nil {
		go dieOfFiles(w, dieAt)
	}
	model, err := openai.New(openai.Config{Model: "recorded", URL: w.Model, Header: w.Header()})
	if err != nil {
		return err
	}
	rt, err := holdfast.New(holdfast.Config{Store: w.Store, Lease: w.Lease})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	o := workflow.ResumeOptions{Host: runHost(w, model), Out: filepath.Join(w.Dir, outDir), NoWait: j.NoWait}
	if j.Remote {
		o.Permissions = &holdfast.Permissions{}
	}
	res, err := startRun(ctx, rt, w, j.After, o)
	for err == nil && res.Status == workflow.StatusPaused {
		w.Point("paused: " + res.Waiting[0].Unit)
		if j.Remote {
			if err = respondToAll(ctx, rt, w, j, res.Waiting); err == nil {
				res, err = workflow.Resume(ctx, rt, w.Run, o)
			}
			continue
		}
		q := *res.Question
		o.Target = ""
		if n := len(res.Pending); n > 1 { // not always the first in line
			q = res.Pending[n-1]
			o.Target = *q.BranchID
		}
		answer, ok := j.Answers[q.Unit]
		if !ok {
			return fmt.Errorf("nobody has an answer to %s: %q", q.Unit, q.Prompt)
		}
		o.Answer = &answer
		res, err = workflow.Resume(ctx, rt, w.Run, o)
	}
	switch {
	case err == nil && res.Status == workflow.StatusCancelled && j.After == afterCancel:
	case err == nil && res.Status != workflow.StatusCompleted:
		return fmt.Errorf("the run is %s", res.Status)
	case errors.Is(err, session.ErrStatus) && res.Status == "": // a process before this one came to the end
		return nil
	}
	return err
}

// respondToAll responds to what waits. Each response may have been sent before.
func respondToAll(ctx context.Context, rt *holdfast.Runtime, w *crashtest.Worker, j runJob, waiting []session.PendingCall) error {
	for _, p := range waiting {
		response, ok := callResponses[p.Tool]
		if p.BySpec() {
			response.Action = session.RespondAnswer
			response.Text, ok = j.Answers[p.Unit]
		}
		if !ok {
			return fmt.Errorf("nobody has a response to %s: %q", p.Unit, p.Prompt)
		}
		response.PendingID = p.ID
		if err := rt.Respond(ctx, w.Run, response); err != nil {
			return err
		}
		w.Point("responded: " + p.Unit + " " + p.Tool)
	}
	return nil
}

// startRun starts the run, or goes on with it where there is one.
func startRun(ctx context.Context, rt *holdfast.Runtime, w *crashtest.Worker, after string, o workflow.ResumeOptions) (workflow.Result, error) {
	if after != "" {
		return startAfter(ctx, rt, w, after, o)
	}
	_, err := rt.Info(ctx, w.Run)
	if err == nil {
		return workflow.Resume(ctx, rt, w.Run, o)
	}
	if !errors.Is(err, session.ErrNotFound) {
		return workflow.Result{}, err
	}
	s, err := workflow.Load(filepath.Join(w.Dir, specFile), nil)
	if err != nil {
		return workflow.Result{}, err
	}
	return workflow.Start(ctx, rt, s, workflow.RunOptions{Host: o.Host, ID: w.Run, Out: o.Out})
}

func runHost(w *crashtest.Worker, m llm.Model) workflow.Host {
	m = crashtest.Model{Model: m, Worker: w, Key: func(_ llm.Request, text string) string { return keyIn(text) }}
	return workflow.Host{
		Models:  func(spec.Model) (string, llm.Model, error) { return "recorded", m, nil },
		Env:     spec.Env{Providers: []string{"recorded"}},
		Tools:   func(context.Context, *spec.Spec, *spec.Snapshot) (workflow.Toolbox, error) { return crashTools{w}, nil },
		WorkDir: w.Dir,
		OnEvent: func(e workflow.Event) {
			if d, ok := e.Data.(workflow.UnitData); ok && strings.HasSuffix(string(e.Type), "_complete") {
				w.Point("unit done: " + d.Unit)
			}
		},
		Warn: func(format string, args ...any) { w.Problem(fmt.Sprintf(format, args...)) },
	}
}

// crashTools are the tools of the specs.
type crashTools struct{ w *crashtest.Worker }

// For is the tools with these names. An agent without a list has none.
func (c crashTools) For(names []string, _ bool, _ func(string) bool) ([]tool.Tool, error) {
	var tools []tool.Tool
	for _, s := range []tool.Spec{
		{Name: "weigh", Description: "Weighs.", Nature: tool.ReadOnly, Effects: tool.Read},
		{Name: "stamp", Description: "Stamps.", Nature: tool.Idempotent, Effects: tool.Read},
		{Name: "charge", Description: "Charges.", Nature: tool.Idempotent, Effects: tool.External},
	} {
		if slices.Contains(names, s.Name) {
			tools = append(tools, crashtest.Tool{Worker: c.w, About: s})
		}
	}
	for _, t := range []tool.Tool{tool.AskPerson(), tool.Client(session.ClientTool{Name: "scan", Description: "Scans."})} {
		if slices.Contains(names, t.Spec().Name) {
			tools = append(tools, t)
		}
	}
	return tools, nil
}

func (crashTools) Close() error { return nil }

// files counts what a run has left in its directory.
type files struct{ notes, artifacts, temporary int }

const filesPoint = "files: %d notes, %d artifacts, %d temporary"

// point names the moment at which there are as many files.
func (f files) point() string { return fmt.Sprintf(filesPoint, f.notes, f.artifacts, f.temporary) }

// dieOfFiles kills the process as soon as it has left enough files. It looks
// often: between two files there is not much time.
func dieOfFiles(w *crashtest.Worker, want files) {
	for range time.Tick(20 * time.Microsecond) {
		if f := filesIn(w.Dir); f.notes >= want.notes && f.artifacts >= want.artifacts && f.temporary >= want.temporary {
			w.Die(f.point())
		}
	}
}

var noteHead = regexp.MustCompile(`(?m)^(## |\{"timestamp")`)

// filesIn counts the files of a run.
func filesIn(dir string) (f files) {
	if raw, err := os.ReadFile(filepath.Join(dir, notesFile)); err == nil {
		f.notes = len(noteHead.FindAll(raw, -1))
	}
	_ = filepath.WalkDir(filepath.Join(dir, outDir), func(_ string, d os.DirEntry, err error) error { // what is not there is not counted
		switch {
		case err != nil || d.IsDir():
		case strings.HasPrefix(d.Name(), ".holdfast-"):
			f.temporary++
		default:
			f.artifacts++
		}
		return nil
	})
	return f
}
