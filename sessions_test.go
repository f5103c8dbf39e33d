package holdfast_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

func TestCreate_definitionWinsOverTheSeed(t *testing.T) {
	h := open(t, nil)
	def := agentDef
	def.Metadata = session.Values{"shared": []byte(`"definition"`), "own": []byte("1")}
	s, err := h.Create(t.Context(), def, holdfast.WithName("seeded"), holdfast.WithUser("ann"), holdfast.WithSeed(session.Seed{
		SystemPrompt: "from the seed", Metadata: session.Values{"shared": []byte(`"seed"`), "kept": []byte("2")},
		Messages: []session.Message{{Role: session.RoleUser, Content: session.Text("hi")}, {Role: session.RoleAssistant, Content: session.Text("ho")}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if s.SystemPrompt() != "Be brief." || s.Metadata().String("shared") != "definition" || string(s.Metadata()["kept"]) != "2" || s.Len() != 2 {
		t.Errorf("got %s", document(t, s))
	}
	if i := s.Info(); i.Version != 1 || i.UserID != "ann" || i.Name != "seeded" || i.Origin != session.OriginRoot || i.Kind != session.KindChat || i.AgentLabel != "tester" {
		t.Errorf("header %+v", i)
	}
	orphan := session.Message{ID: "x", Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: "1"}}
	if _, err := h.Create(t.Context(), def, holdfast.WithSeed(session.Seed{Messages: []session.Message{orphan}})); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("an invalid transcript: %v", err)
	}
}

func TestCreate_refusesBadOptions(t *testing.T) {
	h := open(t, nil)
	for name, opts := range map[string][]holdfast.Option{
		"id":     {holdfast.WithID("../x")},
		"name":   {holdfast.WithName(strings.Repeat("x", 201))},
		"kind":   {holdfast.WithKind("party")},
		"option": {holdfast.At(1)},
		"empty":  {{}},
	} {
		if _, err := h.Create(t.Context(), agentDef, opts...); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := count(t, h); n != 0 {
		t.Errorf("%d sessions were stored", n)
	}
}

func TestCreate_problemsListWhatIsAvailable(t *testing.T) {
	h := open(t, func(c *holdfast.Config) {
		c.Tools = toolSet(t, tool.Fake("clock", "", "noon"))
		c.Skills = map[string]string{"cook": "x"}
		c.Capabilities = map[string]holdfast.Capability{"web": {}}
	})
	cost := session.Dollars(1)
	_, err := h.Create(t.Context(), session.Definition{
		Name: "x", Model: "demo", Tools: []string{"hammer"}, Skills: []string{"fly"}, Capabilities: []string{"sea"},
		Subagents: []string{"a"}, Budget: &session.Budget{MaxCost: &cost},
	})
	var def *session.DefinitionError
	if !errors.As(err, &def) {
		t.Fatal(err)
	}
	text := err.Error()
	for _, want := range []string{`"hammer" is not known; available: clock`, `"fly" is not known; available: cook`, `"sea" is not known; available: web`, "subagents", "needs a price"} {
		if !contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

func TestCreate_refusesSecretsInOptions(t *testing.T) {
	h := open(t, nil)
	_, err := h.Create(t.Context(), session.Definition{Name: "x", ModelParams: &session.ModelParams{
		Options: session.Values{"seed": []byte("1"), "api_key": []byte(`"sk-123"`)},
	}})
	var secret *session.SecretError
	if !errors.As(err, &secret) || secret.Key != "api_key" || contains(err.Error(), "sk-123") {
		t.Errorf("got %v", err)
	}
}

func TestTools_nilIsAllAndEmptyIsNone(t *testing.T) {
	h := open(t, func(c *holdfast.Config) {
		c.Tools = toolSet(t, tool.Fake("a", "", ""), tool.Fake("b", "", ""))
		c.Capabilities = map[string]holdfast.Capability{"more": {Prompt: "You may c.", Tools: []tool.Tool{tool.Fake("c", "", "")}}}
		c.Skills = map[string]string{"poet": "Rhyme."}
	})
	for _, row := range []struct {
		def  session.Definition
		want []string
	}{
		{session.Definition{Name: "x"}, []string{"a", "b"}},
		{session.Definition{Name: "x", Tools: []string{}}, nil},
		{session.Definition{Name: "x", ToolsDeny: []string{"a"}}, []string{"b"}},
		{session.Definition{Name: "x", Tools: []string{"b"}}, []string{"b"}},
		{session.Definition{Name: "x", Capabilities: []string{"more"}, Skills: []string{"poet"}}, []string{"a", "b", "c"}},
	} {
		s, err := h.Create(t.Context(), row.def)
		if err != nil {
			t.Fatal(err)
		}
		fork, err := h.Fork(t.Context(), s.ID())
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{s.ID(), fork.ID()} {
			h.do(id, holdfast.SendMessage{Text: "hi"})
			r := h.model.Requests()
			last := r[len(r)-1]
			var names []string
			for _, offered := range last.Tools {
				names = append(names, offered.Name)
			}
			if !slices.Equal(names, row.want) {
				t.Errorf("tools %v of %v: offered %v", row.def.Tools, row.def.Capabilities, names)
			}
			if len(row.def.Skills) > 0 && last.System != "You may c.\n\nRhyme." {
				t.Errorf("prompt %q", last.System)
			}
		}
	}
}

func TestFork_isItsOwnSession(t *testing.T) {
	h := open(t, nil)
	s := h.create(holdfast.WithName("parent"), holdfast.WithUser("ann"))
	h.do(s.ID(), holdfast.SendMessage{Text: "one"})
	h.do(s.ID(), holdfast.WriteMetadata{Key: "k", Value: "v"})
	parent := h.do(s.ID(), holdfast.SendMessage{Text: "two"})
	h.heard.forget()
	fork, err := h.Fork(t.Context(), s.ID(), holdfast.At(3), holdfast.WithName("branch"))
	if err != nil {
		t.Fatal(err)
	}
	wantEvents(t, h, "SessionLoaded", "SessionSaved", "SessionForked")
	i := fork.Info()
	if i.Version != 1 || i.Origin != session.OriginFork || i.ParentID != s.ID() || i.Fork.Version != 3 || i.Status != session.Active ||
		i.Name != "branch" || i.UserID != "ann" || fork.AgentID() == s.AgentID() || fork.Execution() != nil {
		t.Errorf("header %+v", i)
	}
	if fork.Len() != 2 || fork.Metadata().String("k") != "v" || fork.Message(0).ID != parent.Message(0).ID {
		t.Errorf("%d messages, metadata %v", fork.Len(), fork.Metadata())
	}
	h.do(fork.ID(), holdfast.SendMessage{Text: "elsewhere"})
	h.do(s.ID(), holdfast.ClearSession{})
	if got := texts(h.stored(fork.ID())); !slices.Equal(got, []string{"one", "hello", "elsewhere", "hello"}) {
		t.Errorf("the fork's transcript is %v", got)
	}
	if page, err := h.List(t.Context(), store.Query{ParentID: s.ID()}); err != nil || len(page.Items) != 1 || page.Items[0].ID != fork.ID() {
		t.Errorf("children %v, %v", page.Items, err)
	}
	for _, v := range []int64{0, -1, 99} {
		if _, err := h.Fork(t.Context(), s.ID(), holdfast.At(v)); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("fork at %d: %v", v, err)
		}
	}
	h.do(s.ID(), holdfast.DeleteSession{})
	if _, err := h.Fork(t.Context(), s.ID()); !errors.Is(err, session.ErrStatus) {
		t.Errorf("fork of a deleted session: %v", err)
	}
}

func TestFork_neverSeesAnOpenTail(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	h.do(s.ID(), holdfast.SendMessage{Text: "one"})
	h.interrupt(s.ID())
	fork, err := h.Fork(t.Context(), s.ID())
	if err != nil || fork.Len() != 2 || fork.HasTail() {
		t.Errorf("the fork has %d messages, %v", fork.Len(), err)
	}
	if got := h.do(s.ID(), holdfast.ContinueExecution{}); got.Len() != 4 {
		t.Errorf("the parent has %d messages", got.Len())
	}
}

func TestFor_otherTenantsDoNotExist(t *testing.T) {
	h := open(t, nil)
	acme, other := h.For(holdfast.Identity{Tenant: "acme"}), h.For(holdfast.Identity{Tenant: "acme-corp"})
	s, err := acme.Create(t.Context(), agentDef, holdfast.WithID("same"), holdfast.WithName("plan"))
	if err != nil {
		t.Fatal(err)
	}
	twin, err := other.Create(t.Context(), agentDef, holdfast.WithID("same"))
	if err != nil || twin.AgentID() == s.AgentID() {
		t.Fatalf("two tenants cannot use one id: %v", err)
	}
	if _, err := h.Get(t.Context(), "same"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	if _, err := other.Resolve(t.Context(), "plan"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Resolve: %v", err)
	}
	if page, err := h.List(t.Context(), store.Query{}); err != nil || len(page.Items) != 0 {
		t.Errorf("List: %v, %v", page.Items, err)
	}
	if _, err := h.Fork(t.Context(), "same"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Fork: %v", err)
	}
	if err := h.Purge(t.Context(), "same"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Purge: %v", err)
	}
}

func TestResolve(t *testing.T) {
	h := open(t, nil)
	h.create(holdfast.WithID("abcd-1"), holdfast.WithName("one"))
	h.create(holdfast.WithID("abcd-2"), holdfast.WithName("two"))
	h.create(holdfast.WithID("wxyz"), holdfast.WithName("two"))
	h.create(holdfast.WithID("abcd"), holdfast.WithName("exact"))
	for ref, want := range map[string]string{"abcd": "abcd", "abcd-1": "abcd-1", "one": "abcd-1", "wxyz": "wxyz"} {
		if info, err := h.Resolve(t.Context(), ref); err != nil || info.ID != want {
			t.Errorf("%q: %q, %v", ref, info.ID, err)
		}
	}
	var many *session.AmbiguousError
	if _, err := h.Resolve(t.Context(), "abcd-"); !errors.As(err, &many) || len(many.Candidates) != 2 {
		t.Errorf("a prefix of two: %v", err)
	}
	if _, err := h.Resolve(t.Context(), "two"); !errors.As(err, &many) {
		t.Errorf("a name of two: %v", err)
	}
	for _, ref := range []string{"abc", "wxy", "nobody", "three", "../x"} {
		if _, err := h.Resolve(t.Context(), ref); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("%q: %v", ref, err)
		}
	}
	h.do("wxyz", holdfast.DeleteSession{})
	if info, err := h.Resolve(t.Context(), "two"); err != nil || info.ID != "abcd-2" {
		t.Errorf("a deleted namesake is in the way: %v", err)
	}
	if info, err := h.Resolve(t.Context(), "wxyz"); err != nil || info.Status != session.Deleted {
		t.Errorf("a deleted session by id: %v", err)
	}
}

func TestSecrets_neverReachTheStore(t *testing.T) {
	const secret = `s3cr"et<&>key`
	leaky := toolFunc{spec: tool.Spec{Name: "leak"}, call: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: "the key is " + secret}, nil
	}}
	var model *scripted.Model
	h := open(t, func(c *holdfast.Config) {
		c.Secrets = map[string]string{"API_KEY": secret, "EMPTY": ""}
		c.Redact = func(m session.Message) session.Message {
			for i := range m.Content {
				m.Content[i].Text = strings.ReplaceAll(m.Content[i].Text, "pin of mine", "****")
			}
			return m
		}
		c.Tools = toolSet(t, leaky)
		model = script(c, scripted.Reply{ToolCalls: []session.ToolCall{callOf("1", "leak")}}, scripted.Reply{Text: "It is " + secret})
	})
	s := h.create(holdfast.WithName("n " + secret))
	h.do(s.ID(), holdfast.WriteMetadata{Key: "k", Value: map[string]string{"deep": "x" + secret}})
	got := h.do(s.ID(), holdfast.SendMessage{Text: "say pin of mine, key " + secret})
	if got.Reply() != "It is [secret:API_KEY]" {
		t.Errorf("reply %q", got.Reply())
	}
	raw, err := session.JSON("psst: " + secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Post(t.Context(), s.ID(), store.Item{Kind: store.ItemSetting, Payload: session.Values{"note": raw}}); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	items, err := h.store.(store.Inboxes).Inbox(t.Context(), store.RefOf(s))
	if err != nil || len(items) != 1 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	all.Write(items[0].Payload["note"])
	for e, err := range h.Log(t.Context(), s.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		raw, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		all.Write(raw)
	}
	all.WriteString(document(t, h.stored(s.ID())))
	if text := all.String(); contains(text, "s3cr") || contains(text, "pin of mine") || !contains(text, "[secret:API_KEY]") || !contains(text, "say ****") {
		t.Errorf("something leaked into %s", text)
	}
	for _, r := range model.Requests() {
		for _, m := range r.Messages {
			if contains(m.Content.Text(), "s3cr") {
				t.Error("the model was sent the secret")
			}
		}
	}
}

func TestOffline_refusesModelsThatAreNot(t *testing.T) {
	h := open(t, func(c *holdfast.Config) {
		c.Offline = true
		c.Models = llm.Map{"demo": modelFunc(func(context.Context, llm.Request) (llm.Response, error) {
			t.Error("a model was called")
			return llm.Response{}, nil
		})}
	})
	s := h.create()
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"}); !errors.Is(err, session.ErrDefinition) {
		t.Errorf("got %v", err)
	}
	h.unchanged(s)
}

// baseOnly hides every ability but the base.
type baseOnly struct{ store.Store }

func TestBaseOnlyStore_works(t *testing.T) {
	h := open(t, func(c *holdfast.Config) { c.Store = baseOnly{c.Store} })
	s := h.create()
	if got := h.do(s.ID(), holdfast.SendMessage{Text: "hi"}); got.Reply() != "hello" || got.Version() != 2 {
		t.Errorf("reply %q at version %d", got.Reply(), got.Version())
	}
	if fork, err := h.Fork(t.Context(), s.ID()); err != nil || fork.Len() != 2 {
		t.Errorf("fork: %v", err)
	}
	unsupported := map[string]error{}
	_, unsupported["rewind"] = h.Execute(t.Context(), s.ID(), holdfast.RewindSession{To: 1})
	_, unsupported["at"] = h.Get(t.Context(), s.ID(), holdfast.At(1))
	_, unsupported["diff"] = h.Diff(t.Context(), s.ID(), 1, 2)
	_, unsupported["recover"] = h.Recover(t.Context())
	_, unsupported["sweep"] = h.Sweep(t.Context(), holdfast.Retention{Expired: true})
	_, unsupported["key"] = h.Execute(t.Context(), s.ID(), holdfast.ClearSession{}, holdfast.IdempotencyKey("k"))
	_, unsupported["enqueue"] = h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "x"}, holdfast.OnBusy(holdfast.Enqueue))
	unsupported["cancel"] = h.Cancel(t.Context(), s.ID())
	unsupported["hold"] = h.Hold(t.Context(), s.ID(), func(context.Context, *holdfast.Hold) error { return nil })
	for _, err := range h.Watch(t.Context(), s.ID(), 0) {
		unsupported["watch"] = err
	}
	for call, err := range unsupported {
		if !errors.Is(err, session.ErrUnsupported) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if _, err := h.Execute(t.Context(), s.ID(), holdfast.RewindSession{To: 1}); err == nil || h.stored(s.ID()).Version() != 2 {
		t.Error("an unsupported call changed something")
	}
}

func TestImport_ofAnExport(t *testing.T) {
	h := open(t, nil)
	s := h.create(holdfast.WithName("old"))
	h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	exported, err := h.Get(t.Context(), s.ID(), holdfast.Whole())
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := session.Decode([]byte(document(t, exported)))
	if err != nil {
		t.Fatal(err)
	}
	build := func(id string) session.Session {
		t.Helper()
		in, err := decoded.Imported(id, "agent-"+id, "", session.SessionImported{Format: session.Format}, exported.Info().UpdatedAt)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	if _, err := h.Import(t.Context(), build("")); !errors.Is(err, session.ErrConflict) {
		t.Errorf("an id that is there: %v", err)
	}
	got, err := h.Import(t.Context(), build("new"))
	if err != nil {
		t.Fatal(err)
	}
	if i := got.Info(); i.Version != 1 || i.Origin != session.OriginImport || i.Name != "old" || !i.CreatedAt.Equal(s.Info().CreatedAt) || got.Len() != 2 || got.Reply() != "hello" {
		t.Errorf("imported %s", document(t, got))
	}
	if next := h.do("new", holdfast.SendMessage{Text: "more"}); next.Len() != 4 {
		t.Errorf("%d messages", next.Len())
	}
}

func TestSessions_iteratesOverAllPages(t *testing.T) {
	h := open(t, nil)
	want := map[string]bool{}
	for range 7 {
		want[h.create().ID()] = true
	}
	n := 0
	for info, err := range h.Sessions(t.Context(), store.Query{Limit: 3}) {
		if err != nil || !want[info.ID] {
			t.Fatalf("got %q, %v", info.ID, err)
		}
		delete(want, info.ID)
		n++
	}
	if n != 7 {
		t.Errorf("%d sessions, left %v", n, want)
	}
	for range h.Sessions(t.Context(), store.Query{Limit: 3}) {
		n++
		break
	}
	if n != 8 {
		t.Error("break does not end it")
	}
	for _, err := range h.Sessions(t.Context(), store.Query{Limit: -1}) {
		if !errors.Is(err, session.ErrInvalid) {
			t.Errorf("a bad query: %v", err)
		}
	}
}
