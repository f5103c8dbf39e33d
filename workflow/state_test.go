package workflow_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/workflow"
)

func TestProject_isTheStateOtherProgramsRead(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.completes("re: tea 3")(s.start(`
version: 1
name: "Tea: a Letter!"
runtime: {provider: scripted, budgets: {max_tokens: 50000}, failure_policy: {retries: 0}}
inputs: {required: {topic: string}, optional: {n: {type: integer, default: 3}}}
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{agent: a, input: "{{ topic }} {{ n }}"}]}}
`, "topic", "tea"))
	st := s.state()
	raw, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	stamp := regexp.MustCompile(`"(created_at|updated_at)":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00"`)
	got := stamp.ReplaceAllString(string(raw), `"$1":""`)
	want := `{"metadata": {"session_id": "` + s.id + `", "workflow_name": "Tea: a Letter!", "spec_hash": "` + st.Metadata.SpecHash + `", "pattern_type": "chain",
		"status": "completed", "created_at": "", "updated_at": "", "error": null, "metadata": {}},
		"variables": {"topic": "tea"},
		"runtime_config": {"provider": "scripted", "model_id": null, "region": null, "host": null, "temperature": null, "top_p": null, "max_tokens": null,
			"max_parallel": null, "budgets": {"max_tokens": 50000}, "failure_policy": {"retries": 0}},
		"token_usage": {"total_input_tokens": 10, "total_output_tokens": 5, "by_agent": {"a": 15}}, "artifacts_written": []}`
	if !sameJSON(t, got, want) {
		t.Errorf("the state is\n%s\nwant\n%s", got, want)
	}
	hash, err := workflow.SpecHash(s.path)
	if err != nil || hash != st.Metadata.SpecHash || len(hash) != 64 {
		t.Errorf("the hash is %s, want %s (%v)", st.Metadata.SpecHash, hash, err)
	}
	info, err := s.rt.Info(t.Context(), s.id)
	if err != nil || info.Kind != session.KindWorkflow || info.Workflow.Name != "Tea: a Letter!" || info.Workflow.Status != "completed" || info.AgentName != "tea--a-letter-" {
		t.Errorf("the header is %+v, %+v (%v)", info, info.Workflow, err)
	}
}

func TestProject_needsAWholeWorkflowRun(t *testing.T) {
	t.Parallel()
	rt := runtime(t, inmem.New(inmem.Config{}))
	chat, err := rt.Create(t.Context(), session.Definition{Name: "chat"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := workflow.Project(chat); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a chat: %v", err)
	}
	if _, err := workflow.Resume(t.Context(), rt, chat.ID(), workflow.ResumeOptions{Host: host(&actor{answer: echo})}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a chat was resumed: %v", err)
	}
	if _, err := workflow.Resume(t.Context(), rt, "nobody", workflow.ResumeOptions{Host: host(&actor{answer: echo})}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("nobody was resumed: %v", err)
	}
}

func TestSecrets_neverEnterTheLog(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	st := inmem.New(inmem.Config{})
	s := sceneOn(t, st, func(r llm.Request) (llm.Response, error) {
		if input(r) == "two" {
			return llm.Response{}, errors.New("refused " + secret)
		}
		return said("it is " + secret), nil
	})
	var err error
	if s.rt, err = holdfast.New(holdfast.Config{Store: st, Secrets: map[string]string{"KEY": secret}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.rt.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.start(head + `
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{agent: a, input: one}, {agent: a, input: two}]}}
`); err == nil {
		t.Fatal("it did not fail")
	}
	for e, err := range s.rt.Log(t.Context(), s.id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(e)
		if err != nil || strings.Contains(string(raw), secret) {
			t.Errorf("the log holds %s (%v)", raw, err)
		}
	}
	if info, err := s.rt.Info(t.Context(), s.id); err != nil || strings.Contains(info.Workflow.Error, secret) {
		t.Errorf("the header says %s (%v)", info.Workflow.Error, err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	if id := workflow.NewSessionID(); len(id) != 36 || id[14] != '4' {
		t.Errorf("the id is %s", id)
	}
	if now := workflow.NowISO8601(); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00$`).MatchString(now) {
		t.Errorf("it is %s", now)
	}
	if _, err := workflow.SpecHash(t.TempDir() + "/none"); err == nil {
		t.Error("a missing file has a hash")
	}
}
