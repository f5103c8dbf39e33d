package chaostest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/worker"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// job tells a node where it works.
type job struct {
	Store, URL, Dir string
}

// drain is how long a node that ends in order lets its work go on.
const drain = 2 * time.Second

// request is what a client asks a node for. Its key is unique, and is the text
// of the message, the id of the task or the id of the run.
type request struct {
	Kind    session.Kind
	Session string // of a chat
	Key     string
}

// program is a node's end of the work: it serves requests, chats over the API of
// package server, and works on what other nodes have left.
type program struct {
	dir  string
	st   store.Store
	rt   *holdfast.Runtime
	x    *task.Executor
	host workflow.Host
}

const (
	effectsFile = "effects"
	specFile    = "spec.yaml"
	specText    = `version: 1
name: Charge in a chain
runtime: {provider: recorded, model_id: m, failure_policy: {retries: 0, wait_min: 0, wait_max: 0}}
agents:
  clerk: {prompt: You charge., tools: [charge]}
  writer: {prompt: You write.}
pattern:
  type: chain
  config:
    steps:
      - {agent: clerk, input: "Charge {{ key }}."}
      - {agent: writer, input: "Write about it: {{ steps[0].response }}"}
inputs: {required: {key: string}}
`
)

// runNode is the program of a worker process. It ends when the test says so.
func runNode(ctx context.Context, p *child.Process) (err error) {
	var j job
	if err := p.Job(&j); err != nil {
		return err
	}
	st, err := openPatiently(ctx, j)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	charge := charger(filepath.Join(j.Dir, effectsFile))
	tools, err := tool.NewSet(charge)
	if err != nil {
		return err
	}
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"m": clerk{}}, DefaultModel: "m", Tools: tools})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	x, err := task.New(rt, task.Config{Registry: kit{charge}})
	if err != nil {
		return err
	}
	n := &program{dir: j.Dir, st: st, rt: rt, x: x, host: workflow.Host{
		Models:  func(spec.Model) (string, llm.Model, error) { return "recorded", clerk{}, nil },
		Env:     spec.Env{Providers: []string{"recorded"}},
		Tools:   func(context.Context, *spec.Spec, *spec.Snapshot) (workflow.Toolbox, error) { return kit{charge}, nil },
		WorkDir: j.Dir,
	}}
	return n.serve(ctx, p)
}

// openPatiently opens the store of a node that may be started while the database
// is away.
func openPatiently(ctx context.Context, j job) (store.Store, error) {
	for {
		st, err := crashtest.Open(ctx, j.Store, j.URL, nil)
		if err == nil || j.Store != "postgres" {
			return st, err
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// serve answers requests and works on what waits, until the test ends the node.
func (n *program) serve(ctx context.Context, p *child.Process) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	api, err := server.New(server.Config{Runtime: n.rt, Keys: apikey.New(n.rt, nil)})
	if err != nil {
		return err
	}
	defer api.Close()
	work, err := n.newWorker()
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/", api)
	mux.HandleFunc("/", n.answer)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	web.RegisterOnShutdown(api.Drain)
	var both sync.WaitGroup
	both.Go(func() { _ = web.Serve(listener) })
	both.Go(func() { work.Run(ctx) })
	p.Report(listener.Addr().String())
	p.Ready()
	p.Wait()
	cancel()
	ending, ended := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer ended()
	if web.Shutdown(ending) != nil {
		_ = web.Close() // what is interrupted another node continues
	}
	both.Wait()
	return nil
}

// newWorker returns what takes up the work that others have left.
func (n *program) newWorker() (*worker.Worker, error) {
	return worker.New(worker.Config{
		Runtime: n.rt, Store: n.st, Drain: drain, Poll: 300 * time.Millisecond,
		Kinds: map[session.Kind]worker.Kind{
			session.KindChat: worker.Chats(8),
			session.KindTask: worker.Tasks(8, func(*holdfast.Runtime) (*task.Executor, error) { return n.x, nil }),
			session.KindWorkflow: worker.Runs(8, func(*holdfast.Runtime) (workflow.ResumeOptions, error) {
				return workflow.ResumeOptions{Host: n.host, Out: filepath.Join(n.dir, "artifacts")}, nil
			}),
		},
	})
}

// answer does what a request about a task or a run asks for. 200 acknowledges it.
func (n *program) answer(w http.ResponseWriter, r *http.Request) {
	var q request
	err := json.NewDecoder(r.Body).Decode(&q)
	if err == nil {
		switch q.Kind {
		case session.KindTask:
			err = n.doTask(r.Context(), q.Key)
		case session.KindWorkflow:
			err = n.doRun(r.Context(), q.Key)
		default:
			err = fmt.Errorf("no kind %q", q.Kind)
		}
	}
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprint(w, err) // a client that is gone asks again
	}
}

// doTask creates a task, unless it is there, and works on it to its end.
func (n *program) doTask(ctx context.Context, key string) error {
	_, err := n.x.Get(ctx, key)
	if errors.Is(err, session.ErrNotFound) {
		_, err = n.x.Create(ctx, task.Spec{
			ID: key, Prompt: "charge " + key, PermissionMode: session.PermissionBypass,
			Plan: &session.Plan{Description: "charge", Steps: []session.PlanStep{{Description: "charge " + key}}},
		})
	}
	if err != nil {
		return err
	}
	result, err := n.x.Resume(ctx, key)
	switch {
	case errors.Is(err, session.ErrTaskTerminal):
		result.Row, err = n.x.Get(ctx, key)
	case err != nil:
		return err
	}
	if err == nil && task.Canonical(result.Row.TaskRow) != task.Completed {
		err = fmt.Errorf("task %s is %s: %s", key, task.Canonical(result.Row.TaskRow), result.Row.Error)
	}
	return err
}

// doRun starts a run, unless it is there, and works on it to its end.
func (n *program) doRun(ctx context.Context, key string) error {
	info, err := n.rt.Info(ctx, key)
	var result workflow.Result
	switch {
	case errors.Is(err, session.ErrNotFound):
		vars := spec.Map[string]{{Name: "key", Value: key}}
		s, loadErr := workflow.Load(filepath.Join(n.dir, specFile), vars)
		if loadErr != nil {
			return loadErr
		}
		result, err = workflow.Start(ctx, n.rt, s, workflow.RunOptions{Host: n.host, ID: key, Vars: vars, Out: filepath.Join(n.dir, key)})
	case err != nil:
	case info.Workflow != nil && info.Workflow.Status == string(workflow.StatusCompleted):
		return nil
	default:
		result, err = workflow.Resume(ctx, n.rt, key, workflow.ResumeOptions{Host: n.host, NoWait: true, Out: filepath.Join(n.dir, key)})
	}
	if err == nil && result.Status != workflow.StatusCompleted {
		err = fmt.Errorf("run %s is %s: %s", key, result.Status, result.Error)
	}
	return err
}

// clerk is a model that charges for each key it reads once, and then says so.
type clerk struct{}

var keyPattern = regexp.MustCompile(`[a-z]+-c\d+-\d+`)

// Infer answers by what it is sent alone.
func (clerk) Infer(_ context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	last := r.Messages[len(r.Messages)-1]
	usage := session.Usage{Input: 10, Output: 5}
	if last.ToolResult != nil {
		return llm.Response{Content: session.Text("done: " + last.ToolResult.Content), FinishReason: "stop", Usage: usage}, nil
	}
	text := last.Content.Text()
	key := keyPattern.FindString(text)
	if key == "" || len(r.Tools) == 0 || strings.Contains(text, "done: ") {
		return llm.Response{Content: session.Text("it is written: " + text), FinishReason: "stop", Usage: usage}, nil
	}
	call := session.ToolCall{ID: "call-" + key, Name: "charge", Arguments: json.RawMessage(`{"key":"` + key + `"}`)}
	return llm.Response{ToolCalls: []session.ToolCall{call}, FinishReason: "tool_calls", Usage: usage}, nil
}

// charger is a tool that must not run twice. It writes its effects to a file.
type charger string

// Spec describes the tool.
func (charger) Spec() tool.Spec {
	return tool.Spec{Name: "charge", Description: "Takes money.", Nature: tool.Once, Effects: tool.External}
}

// Call charges once.
func (f charger) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	var arguments struct{ Key string }
	if err := json.Unmarshal(c.Arguments, &arguments); err != nil {
		return tool.Result{}, err
	}
	pause(ctx, 30*time.Millisecond)
	out, err := os.OpenFile(string(f), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(out, arguments.Key)
		err = errors.Join(err, out.Close())
	}
	pause(ctx, 100*time.Millisecond)
	return tool.Result{Content: "charged " + arguments.Key}, err
}

// kit hands the tool to tasks and runs.
type kit []tool.Tool

// Tools are those of tasks.
func (k kit) Tools(context.Context, task.Workspace) ([]tool.Tool, error) { return k, nil }

// For returns the tools of a unit: an agent without a list has none.
func (k kit) For(_ []string, listed bool, _ func(string) bool) ([]tool.Tool, error) {
	if !listed {
		return nil, nil
	}
	return k, nil
}

// Close ends nothing.
func (kit) Close() error { return nil }
