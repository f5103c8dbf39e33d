package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

// staff are definitions by name.
type staff map[string]session.Definition

func (s staff) Get(name string) (session.Definition, error) {
	def, ok := s[name]
	if !ok {
		return def, &session.NotFoundError{What: "definition", ID: name}
	}
	return def, nil
}

func spawning(name, prompt string) session.ToolCall {
	raw, err := json.Marshal(map[string]string{"subagent": name, "prompt": prompt})
	if err != nil {
		panic(err)
	}
	return session.ToolCall{ID: "1", Name: "spawn_subagent", Arguments: raw}
}

// byAgent answers for each agent by a script of its own.
func byAgent(scripts map[string][]scripted.Reply) (llm.Model, map[string]*scripted.Model) {
	models := map[string]*scripted.Model{}
	for name, replies := range scripts {
		models[name] = scripted.New(replies...)
	}
	return modelFunc(func(ctx context.Context, r llm.Request) (llm.Response, error) {
		return models[r.Agent].Infer(ctx, r, nil)
	}), models
}

// boss is an agent that gives work to a cook.
func boss() session.Definition {
	return session.Definition{Name: "boss", Model: "demo", Subagents: []string{"cook"}}
}

func openKitchen(t *testing.T, st store.Store, cook session.Definition, scripts map[string][]scripted.Reply, adjust ...func(*holdfast.Config)) (*house, map[string]*scripted.Model) {
	t.Helper()
	model, models := byAgent(scripts)
	return open(t, func(c *holdfast.Config) {
		if st != nil {
			c.Store = st
		}
		c.Models, c.DefaultModel = llm.Map{"demo": model}, ""
		c.Definitions = staff{"cook": cook, "boss": boss()}
		c.Tools = toolSet(t, tool.Fake("stove", "", "hot"), tool.Fake("phone", "", "ring"))
		for _, change := range adjust {
			change(c)
		}
	}), models
}

// Permissions let an agent call its subagents whatever other tools it chose.
func TestSubagent_isPermittedBesideChosenTools(t *testing.T) {
	t.Parallel()
	h, _ := openKitchen(t, nil, session.Definition{Name: "cook"}, map[string][]scripted.Reply{
		"boss": {{ToolCalls: []session.ToolCall{spawning("cook", "Make soup.")}}, {Text: "Here is soup."}},
		"cook": {{Text: "Soup."}},
	}, func(c *holdfast.Config) { c.Permissions = &holdfast.Permissions{} })
	def := boss()
	def.Tools = []string{"stove"}
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.do(s.ID(), holdfast.SendMessage{Text: "I am hungry"}); len(children(t, h, s.ID())) != 1 || got.Reply() != "Here is soup." {
		t.Errorf("%d subagents, %+v", len(children(t, h, s.ID())), got.Messages())
	}
}

func children(t *testing.T, h *house, id string) session.Infos {
	t.Helper()
	page, err := h.List(t.Context(), store.Query{ParentID: id})
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}

func TestSubagent_answersInASessionOfItsOwn(t *testing.T) {
	cook := session.Definition{Name: "cook", SystemPrompt: "You cook.", Tools: []string{"stove"}}
	h, models := openKitchen(t, nil, cook, map[string][]scripted.Reply{
		"boss": {{ToolCalls: []session.ToolCall{spawning("cook", "Make soup.")}, Usage: session.Usage{Input: 10}}, {Text: "Here is soup.", Usage: session.Usage{Input: 20}}},
		"cook": {{ToolCalls: []session.ToolCall{callOf("s", "stove")}, Usage: session.Usage{Output: 5}}, {Text: "Soup.", Usage: session.Usage{Output: 7}, Cost: 30}},
	})
	rt := h.For(holdfast.Identity{UserID: "ann"})
	def := boss()
	def.Tools = []string{"stove", "phone"}
	s, err := rt.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	got, err := rt.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "I am hungry"})
	if err != nil || got.Reply() != "Here is soup." {
		t.Fatalf("%q, %v", got.Reply(), err)
	}
	kids := children(t, h, s.ID())
	if len(kids) != 1 || kids[0].Origin != session.OriginSubagent || kids[0].Depth != 1 || kids[0].UserID != "ann" || kids[0].AgentName != "cook" {
		t.Fatalf("%+v", kids)
	}
	child := h.stored(kids[0].ID)
	if child.State().ParentAgentID != s.AgentID() || child.Model() != "demo" || !slices.Equal(child.Definition().Tools, []string{"stove"}) {
		t.Errorf("parent agent %q, model %q, tools %v", child.State().ParentAgentID, child.Model(), child.Definition().Tools)
	}
	request := models["cook"].Requests()[0]
	if request.System != "You cook." || len(request.Messages) != 1 || request.Messages[0].Content.Text() != "Make soup." {
		t.Errorf("it was told %+v", request)
	}
	e := got.Execution()
	if e.Usage.Total() != 42 || e.ChildSteps != 2 || e.Cost != 30 || e.Steps[0].ToolExecutions[0].ChildSessionID != child.ID() {
		t.Errorf("usage %+v, cost %v, %d steps, tool %+v", e.Usage, e.Cost, e.ChildSteps, e.Steps[0].ToolExecutions)
	}
	if st := got.State(); st.Usage.Total() != 42 || st.Cost != 30 {
		t.Errorf("in all %+v, cost %v", st.Usage, st.Cost)
	}
	var told []string
	for _, e := range h.heard.all() {
		switch e := e.(type) {
		case holdfast.SubagentStarted:
			told = append(told, "started "+e.Agent+" "+e.ChildID)
		case holdfast.SubagentFinished:
			told = append(told, fmt.Sprint("finished ", e.ChildID, e.IsError))
		}
	}
	if !slices.Equal(told, []string{"started cook " + child.ID(), "finished " + child.ID() + "false"}) {
		t.Errorf("told %v", told)
	}
}

func TestSubagent_neverHasMoreThanItsParent(t *testing.T) {
	limit := 100
	cook := session.Definition{Name: "cook", Memory: &session.MemoryPolicy{Strategy: session.PruneSliding, Limit: &limit, Scopes: []string{"session", "agent"}}}
	h, models := openKitchen(t, nil, cook, map[string][]scripted.Reply{
		"boss": {{ToolCalls: []session.ToolCall{spawning("cook", "Go")}, Usage: session.Usage{Input: 10}}, {Text: "ok"}},
		"cook": {{Text: "done"}},
	})
	steps, tokens := int64(9), int64(1000)
	def := boss()
	def.Tools, def.Budget = []string{"phone"}, &session.Budget{MaxSteps: &steps, MaxTokens: &tokens}
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	h.do(s.ID(), holdfast.SendMessage{Text: "go"})
	child := h.stored(children(t, h, s.ID())[0].ID).Definition()
	if !slices.Equal(child.Tools, []string{"phone"}) || !slices.Equal(child.Memory.Scopes, []string{"session"}) {
		t.Errorf("tools %v, scopes %v", child.Tools, child.Memory.Scopes)
	}
	if *child.Budget.MaxSteps != 8 || *child.Budget.MaxTokens != 990 {
		t.Errorf("budget %v steps, %v tokens", *child.Budget.MaxSteps, *child.Budget.MaxTokens)
	}
	if offered := models["cook"].Requests()[0].Tools; len(offered) != 1 {
		t.Errorf("it was offered %+v", offered)
	}
}

func TestSubagent_troubleIsAResultThatNamesIt(t *testing.T) {
	for name, c := range map[string]struct {
		call session.ToolCall
		cook scripted.Reply
		want string
	}{
		"unknown":        {spawning("baker", "x"), scripted.Reply{}, "baker"},
		"bad arguments":  {session.ToolCall{ID: "1", Name: "spawn_subagent", Arguments: json.RawMessage(`{"who":"cook"}`)}, scripted.Reply{}, "who"},
		"failing model":  {spawning("cook", "x"), scripted.Reply{Err: errors.New("burnt")}, "subagent session sub-"},
		"says nothing":   {spawning("cook", "x"), scripted.Reply{Text: " "}, "gave no answer"},
		"nothing to say": {spawning("cook", " "), scripted.Reply{Text: "x"}, "blank"},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := openKitchen(t, nil, session.Definition{Name: "cook"}, map[string][]scripted.Reply{
				"boss": {{ToolCalls: []session.ToolCall{c.call}}, {Text: "never mind"}}, "cook": {c.cook},
			})
			s, err := h.Create(t.Context(), boss())
			if err != nil {
				t.Fatal(err)
			}
			got := h.do(s.ID(), holdfast.SendMessage{Text: "go"})
			if r := got.Message(2).ToolResult; !r.IsError || !strings.Contains(r.Content, c.want) || got.Reply() != "never mind" {
				t.Errorf("result %+v, reply %q", r, got.Reply())
			}
		})
	}
}

func TestSubagent_depthIsLimited(t *testing.T) {
	again := []scripted.Reply{{ToolCalls: []session.ToolCall{spawning("cook", "deeper")}}, {Text: "back"}}
	cook := session.Definition{Name: "cook", Subagents: []string{"cook"}}
	h, _ := openKitchen(t, nil, cook, map[string][]scripted.Reply{"boss": again, "cook": again})
	s, err := h.Create(t.Context(), boss())
	if err != nil {
		t.Fatal(err)
	}
	h.do(s.ID(), holdfast.SendMessage{Text: "go"})
	depth, id := 0, s.ID()
	for {
		kids := children(t, h, id)
		if len(kids) == 0 {
			break
		}
		depth, id = kids[0].Depth, kids[0].ID
	}
	if depth != 3 {
		t.Errorf("it went %d deep", depth)
	}
	if r := h.stored(id).Message(2).ToolResult; !r.IsError || !strings.Contains(r.Content, "depth 4") {
		t.Errorf("the deepest was told %+v", r)
	}
}

// The parent is broken off at each of its writes; whoever resumes finds the
// child that is there and asks it nothing twice.
func TestSubagent_resumeFindsTheChild(t *testing.T) {
	for breakAt := 1; ; breakAt++ {
		m := &meddling{Store: inmem.New(inmem.Config{})}
		model, models := byAgent(map[string][]scripted.Reply{
			"boss": {{ToolCalls: []session.ToolCall{spawning("cook", "soup")}}, {Text: "served"}},
			"cook": {{ToolCalls: []session.ToolCall{callOf("s", "stove")}}, {Text: "soup"}},
		})
		h := open(t, func(c *holdfast.Config) {
			c.Store, c.Models, c.DefaultModel = m, llm.Map{"demo": model}, ""
			c.Definitions, c.Tools = staff{"cook": {Name: "cook"}}, toolSet(t, tool.Fake("stove", "", "hot"))
		})
		s, err := h.Create(t.Context(), boss())
		if err != nil {
			t.Fatal(err)
		}
		m.append = func(n int) error {
			if n >= breakAt { // and from then on, as when the disk is gone
				return errBoom
			}
			return nil
		}
		if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hungry"}); err == nil {
			if breakAt < 5 {
				t.Fatalf("only %d writes", breakAt-1)
			}
			return
		}
		m.append = nil
		got := h.stored(s.ID())
		if got.Running() || got.HasTail() {
			got = h.do(s.ID(), holdfast.ContinueExecution{})
		} else { // nothing had been written
			got = h.do(s.ID(), holdfast.SendMessage{Text: "hungry"})
		}
		if n := len(children(t, h, s.ID())); n != 1 || got.Reply() != "served" {
			t.Errorf("broken at write %d: %d children, reply %q", breakAt, n, got.Reply())
		}
		if n := len(models["cook"].Requests()); n > 3 {
			t.Errorf("broken at write %d: the child was asked %d times", breakAt, n)
		}
	}
}

func TestSubagent_cancelReachesIt(t *testing.T) {
	g := newGate()
	cook := slow(g)
	h := open(t, func(c *holdfast.Config) {
		c.DefaultModel = "demo"
		c.Models = llm.Map{"demo": scripted.New(scripted.Reply{ToolCalls: []session.ToolCall{spawning("cook", "soup")}}, scripted.Reply{Text: "served"}), "slow": cook}
		c.Definitions = staff{"cook": {Name: "cook", Model: "slow"}}
	})
	s, err := h.Create(t.Context(), boss())
	if err != nil {
		t.Fatal(err)
	}
	wait := h.background(s.ID(), g)
	if err := h.Cancel(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	close(g.open)
	got, err := wait()
	if err != nil || got.Execution().Stop.Reason != session.StopUserRequested {
		t.Errorf("%+v, %v", got.Execution().Stop, err)
	}
	child := h.stored(children(t, h, s.ID())[0].ID)
	if child.Execution().Stop.Reason != session.StopUserRequested {
		t.Errorf("the child ended by %+v", child.Execution().Stop)
	}
}

func TestSubagent_worksOnAStoreWithoutKeys(t *testing.T) {
	st, err := file.Open(t.TempDir(), file.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h, _ := openKitchen(t, st, session.Definition{Name: "cook"}, map[string][]scripted.Reply{
		"boss": {{ToolCalls: []session.ToolCall{spawning("cook", "Make soup.")}}, {Text: "served"}}, "cook": {{Text: "Soup."}},
	})
	s, err := h.Create(t.Context(), boss())
	if err != nil {
		t.Fatal(err)
	}
	if got := h.do(s.ID(), holdfast.SendMessage{Text: "go"}); got.Message(2).ToolResult.Content != "Soup." {
		t.Errorf("%+v", got.Message(2).ToolResult)
	}
}

// The tool by which others are called can be named like any other. It is there
// whatever else is chosen, unless it is denied.
func TestSubagent_theToolIsOneToChoose(t *testing.T) {
	for name, c := range map[string]struct {
		tools, deny []string
		want        []string
	}{
		"all":              {nil, nil, []string{"phone", "spawn_subagent", "stove"}},
		"none":             {[]string{}, nil, []string{"spawn_subagent"}},
		"named":            {[]string{"stove", "spawn_subagent"}, nil, []string{"spawn_subagent", "stove"}},
		"others":           {[]string{"stove"}, nil, []string{"spawn_subagent", "stove"}},
		"denied":           {nil, []string{"spawn_subagent"}, []string{"phone", "stove"}},
		"named but denied": {[]string{"stove"}, []string{"spawn_subagent"}, []string{"stove"}},
	} {
		h, models := openKitchen(t, nil, session.Definition{Name: "cook"}, map[string][]scripted.Reply{"boss": {{Text: "ok"}}})
		def := boss()
		def.Tools, def.ToolsDeny = c.tools, c.deny
		s, err := h.Create(t.Context(), def)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		h.do(s.ID(), holdfast.SendMessage{Text: "go"})
		var offered []string
		for _, o := range models["boss"].Requests()[0].Tools {
			offered = append(offered, o.Name)
		}
		if slices.Sort(offered); !slices.Equal(offered, c.want) {
			t.Errorf("%s: offered %v, want %v", name, offered, c.want)
		}
	}
}

// A child that may not call others does not get the tool back when its own
// choice is narrowed.
func TestSubagent_staysDenied(t *testing.T) {
	cook := session.Definition{Name: "cook", Subagents: []string{"boss"}, ToolsDeny: []string{"spawn_subagent"}}
	h, models := openKitchen(t, nil, cook, map[string][]scripted.Reply{
		"boss": {{ToolCalls: []session.ToolCall{spawning("cook", "Go")}}, {Text: "ok"}},
		"cook": {{Text: "done"}},
	})
	s, err := h.Create(t.Context(), boss())
	if err != nil {
		t.Fatal(err)
	}
	h.do(s.ID(), holdfast.SendMessage{Text: "go"})
	for _, o := range models["cook"].Requests()[0].Tools {
		if o.Name == "spawn_subagent" {
			t.Error("it can call others")
		}
	}
}

func TestCreate_subagentsMustBeKnown(t *testing.T) {
	h := open(t, nil)
	if _, err := h.Create(t.Context(), boss()); !errors.Is(err, session.ErrDefinition) {
		t.Errorf("without definitions: %v", err)
	}
	h = open(t, func(c *holdfast.Config) { c.Definitions = staff{} })
	if _, err := h.Create(t.Context(), boss()); !errors.Is(err, session.ErrDefinition) || !strings.Contains(fmt.Sprint(err), "cook") {
		t.Errorf("unknown: %v", err)
	}
}

func TestSubagent_thatCannotBeLoadedReportsWhy(t *testing.T) {
	h, _ := openKitchen(t, nil, session.Definition{Name: "cook", Model: "demo"}, map[string][]scripted.Reply{
		"boss": {{ToolCalls: []session.ToolCall{spawning("cook", "soup")}}, {Text: "no soup"}},
	}, func(c *holdfast.Config) {
		c.Hooks = holdfast.HookFunc(func(_ context.Context, stage session.Stage, s session.Session) (session.Session, error) {
			if stage == session.AfterLoad && s.Info().Origin == session.OriginSubagent {
				return s, errBoom
			}
			return s, nil
		})
	})
	s, err := h.Create(t.Context(), boss())
	if err != nil {
		t.Fatal(err)
	}
	got := h.do(s.ID(), holdfast.SendMessage{Text: "soup, please"})
	var result string
	for _, m := range got.All() {
		if m.ToolResult != nil && m.ToolResult.IsError {
			result = m.ToolResult.Content
		}
	}
	if !strings.Contains(result, errBoom.Error()) || strings.Contains(result, "panic") {
		t.Errorf("the agent was told %q", result)
	}
}
