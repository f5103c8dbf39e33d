// Package mcpserver offers sessions as tools and resources of an MCP server, so
// that other agents can talk to them, start tasks and workflow runs, and respond
// to what waits.
package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/task"
)

// Sessions are the verbs that the tools need. A holdfast.Runtime has them, and
// so has a client.Client.
type Sessions interface {
	Create(ctx context.Context, def session.Definition, opts ...holdfast.Option) (session.Session, error)
	Execute(ctx context.Context, id string, a holdfast.Action, opts ...holdfast.Option) (session.Session, error)
	Resolve(ctx context.Context, ref string) (session.Info, error)
	Get(ctx context.Context, id string, opts ...holdfast.Option) (session.Session, error)
	List(ctx context.Context, q store.Query) (store.Page, error)
	Respond(ctx context.Context, id string, r session.Response) error
}

// Config says what is offered. Sessions and Agent are required.
type Config struct {
	Sessions Sessions
	Agent    func(ctx context.Context, name string) (session.Definition, error) // "": that of a session that names none
	// Server works on tasks and workflow runs; nil: their tools are not offered.
	Server  *client.Client
	Version string // of the program
}

// New makes the MCP server.
func New(c Config) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "holdfast", Title: "Holdfast", Version: c.Version}, &sdk.ServerOptions{
		Instructions: "Durable sessions with agents. session_send talks to an agent and waits for its answer; a session that waits for an approval or an answer says so, and pending_respond continues it.",
	})
	o := &offer{c}
	sdk.AddTool(s, &sdk.Tool{Name: "session_send", Description: "Send a message to an agent and wait for its answer. Without a session a new one is made. An answer that was interrupted is continued."}, o.send)
	sdk.AddTool(s, &sdk.Tool{Name: "session_read", Description: "Read where a session stands: its last answer, and what it waits for.", Annotations: reads()}, o.read)
	sdk.AddTool(s, &sdk.Tool{Name: "session_search", Description: "List sessions, those first that changed last; with words, those that have all of them in their name, agent or task.", Annotations: reads()}, o.search)
	sdk.AddTool(s, &sdk.Tool{Name: "pending_respond", Description: "Respond to a call that waits for an approval, an answer or a result. A chat then continues, and its answer is returned; tasks and workflow runs are continued in the background."}, o.respond)
	if c.Server != nil {
		sdk.AddTool(s, &sdk.Tool{Name: "task_start", Description: "Give an agent a job that it works on by itself. It is saved at once; task_status says how far it has come."}, o.startTask)
		sdk.AddTool(s, &sdk.Tool{Name: "task_status", Description: "How far a task has come, and what it waits for.", Annotations: reads()}, o.taskStatus)
		sdk.AddTool(s, &sdk.Tool{Name: "workflow_run", Description: "Run a workflow spec (YAML). It is saved at once; workflow_status says how far it has come."}, o.startRun)
		sdk.AddTool(s, &sdk.Tool{Name: "workflow_status", Description: "How far a workflow run has come, and what it waits for.", Annotations: reads()}, o.runStatus)
	}
	s.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "session", Title: "A session", URITemplate: resourcePrefix + "{id}", MIMEType: "application/json",
		Description: "The transcript of a session, by its id, the beginning of it or its name.",
	}, o.resource)
	return s
}

func reads() *sdk.ToolAnnotations { return &sdk.ToolAnnotations{ReadOnlyHint: true} }

// offer carries out the tools. Its errors are results that the calling model
// reads.
type offer struct{ c Config }

type sendInput struct {
	Session string `json:"session,omitempty" jsonschema:"id, beginning of it, or name; leave it out for a new session"`
	Text    string `json:"text" jsonschema:"the message"`
	Agent   string `json:"agent,omitempty" jsonschema:"the agent of a new session"`
	Model   string `json:"model,omitempty" jsonschema:"the model of a new session, as provider/model"`
	Name    string `json:"name,omitempty" jsonschema:"the name of a new session"`
	Key     string `json:"key,omitempty" jsonschema:"any text that is new for each message: repeated with it, a message is sent once"`
}

// turn is where a session stands.
type turn struct {
	Session string    `json:"session" jsonschema:"its id"`
	Status  string    `json:"status" jsonschema:"of its last turn: completed, waiting, in_progress, stopped or failed; empty before the first"`
	Reply   string    `json:"reply" jsonschema:"its last answer"`
	Version int64     `json:"version"`
	Pending []pending `json:"pending,omitempty" jsonschema:"what it waits for"`
}

// pending is a call that waits for a response.
type pending struct {
	ID        string   `json:"id"`
	Session   string   `json:"session"`
	Kind      string   `json:"kind" jsonschema:"approval, question or result"`
	Tool      string   `json:"tool,omitempty"`
	Arguments string   `json:"arguments,omitempty" jsonschema:"JSON"`
	Prompt    string   `json:"prompt,omitempty"`
	Choices   []string `json:"choices,omitempty"`
}

func (o *offer) send(ctx context.Context, _ *sdk.CallToolRequest, in sendInput) (*sdk.CallToolResult, turn, error) {
	id := in.Session
	switch {
	case id != "" && (in.Agent != "" || in.Model != "" || in.Name != ""):
		return nil, turn{}, &session.InvalidError{Field: "session", Reason: "an existing session keeps its agent, model and name; they are for new sessions"}
	case id != "":
		found, err := o.c.Sessions.Resolve(ctx, id)
		if err != nil {
			return nil, turn{}, err
		}
		id = found.ID
	default:
		def, err := o.c.Agent(ctx, in.Agent)
		if err != nil {
			return nil, turn{}, err
		}
		if in.Model != "" {
			def.Model = in.Model
		}
		opts := []holdfast.Option{holdfast.WithName(in.Name)}
		if in.Key != "" { // the message has the key itself
			opts = keyed("new:"+in.Key, opts...)
		}
		made, err := o.c.Sessions.Create(ctx, def, opts...)
		if err != nil {
			return nil, turn{}, err
		}
		id = made.ID()
	}
	s, err := o.c.Sessions.Execute(ctx, id, holdfast.SendMessage{Text: in.Text}, keyed(in.Key)...)
	if err != nil {
		return nil, turn{}, err
	}
	return nil, turnOf(s), nil
}

// keyed adds an idempotency key to options, where there is one.
func keyed(key string, opts ...holdfast.Option) []holdfast.Option {
	if key != "" {
		opts = append(opts, holdfast.IdempotencyKey(key))
	}
	return opts
}

func turnOf(s session.Session) turn {
	t := turn{Session: s.ID(), Reply: s.Reply(), Version: s.Version()}
	if e := s.Execution(); e != nil {
		t.Status = string(e.Status)
	}
	t.Pending = pendingOf(s.ID(), s.PendingCalls())
	return t
}

func pendingOf(id string, calls []session.PendingCall) []pending {
	var list []pending
	for _, c := range calls {
		if !c.Waiting() {
			continue
		}
		p := pending{ID: c.ID, Session: id, Kind: string(c.Kind), Tool: c.Tool, Arguments: string(c.Arguments), Prompt: c.Prompt}
		if c.ChildID != "" {
			p.Session = c.ChildID
		}
		for _, choice := range c.Choices {
			p.Choices = append(p.Choices, choice.Value)
		}
		list = append(list, p)
	}
	return list
}

type readInput struct {
	Session string `json:"session" jsonschema:"id, beginning of it, or name"`
}

func (o *offer) read(ctx context.Context, _ *sdk.CallToolRequest, in readInput) (*sdk.CallToolResult, turn, error) {
	s, err := o.get(ctx, in.Session)
	if err != nil {
		return nil, turn{}, err
	}
	return nil, turnOf(s), nil
}

func (o *offer) get(ctx context.Context, ref string) (session.Session, error) {
	found, err := o.c.Sessions.Resolve(ctx, ref)
	if err != nil {
		return session.Session{}, err
	}
	return o.c.Sessions.Get(ctx, found.ID, holdfast.WithTail())
}

type searchInput struct {
	Words  string `json:"words,omitempty"`
	Kind   string `json:"kind,omitempty" jsonschema:"chat, task or workflow; all where it is left out"`
	Limit  int    `json:"limit,omitempty" jsonschema:"at most 1000; 50 where it is left out"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next of the page before"`
}

type searchOutput struct {
	Sessions []header `json:"sessions"`
	Next     string   `json:"next,omitempty" jsonschema:"the cursor of the next page"`
}

type header struct {
	Session  string `json:"session"`
	Name     string `json:"name,omitempty"`
	Kind     string `json:"kind"`
	Status   string `json:"status"`
	Agent    string `json:"agent"`
	Messages int    `json:"messages"`
	Pending  int    `json:"pending,omitempty" jsonschema:"calls that wait for a response"`
	Updated  string `json:"updated"`
}

func (o *offer) search(ctx context.Context, _ *sdk.CallToolRequest, in searchInput) (*sdk.CallToolResult, searchOutput, error) {
	q := store.Query{Limit: in.Limit, Cursor: in.Cursor}
	if in.Kind != "" {
		q.Kinds = []session.Kind{session.Kind(in.Kind)}
	}
	page, err := store.SearchHeaders(ctx, o.c.Sessions.List, q, in.Words)
	if err != nil {
		return nil, searchOutput{}, err
	}
	out := searchOutput{Sessions: []header{}, Next: page.Next}
	for _, i := range page.Items {
		out.Sessions = append(out.Sessions, header{
			Session: i.ID, Name: i.Name, Kind: string(i.Kind), Status: string(i.Status), Agent: i.AgentName,
			Messages: i.MessageCount, Pending: i.Pending, Updated: i.UpdatedAt.Format("2006-01-02T15:04:05Z07:00"),
		})
	}
	return nil, out, nil
}

type respondInput struct {
	Session string `json:"session" jsonschema:"id, beginning of it, or name"`
	Pending string `json:"pending" jsonschema:"the id of the pending call"`
	Action  string `json:"action" jsonschema:"approve or deny an approval, answer a question, or result for a call that you carried out"`
	Choice  string `json:"choice,omitempty" jsonschema:"one of its choices"`
	Text    string `json:"text,omitempty" jsonschema:"the answer, the result, or the reason of a denial"`
}

func (o *offer) respond(ctx context.Context, _ *sdk.CallToolRequest, in respondInput) (*sdk.CallToolResult, turn, error) {
	i, err := o.c.Sessions.Resolve(ctx, in.Session)
	if err != nil {
		return nil, turn{}, err
	}
	r := session.Response{PendingID: in.Pending, Action: session.ResponseAction(in.Action), Choice: in.Choice, Text: in.Text}
	switch {
	case i.Kind == session.KindTask && o.c.Server != nil:
		_, err = o.c.Server.Tasks().PostResponse(ctx, i.ID, r, task.RespondOptions{})
	default:
		err = o.c.Sessions.Respond(ctx, i.ID, r)
	}
	if err != nil {
		return nil, turn{}, err
	}
	switch {
	case i.Kind == session.KindWorkflow && o.c.Server != nil:
		// A worker of the server may continue it first.
		if _, err := o.c.Server.ResumeRun(ctx, i.ID, client.ResumeOptions{}); err != nil && !errors.Is(err, session.ErrBusy) && !errors.Is(err, session.ErrStatus) {
			return nil, turn{}, err
		}
	case i.Kind == session.KindChat:
		s, err := o.c.Sessions.Execute(ctx, i.ID, holdfast.ContinueExecution{})
		// Others may continue it first, and other calls may still wait.
		if err != nil && !errors.Is(err, session.ErrInvalid) {
			return nil, turn{}, err
		}
		if err == nil {
			return nil, turnOf(s), nil
		}
	}
	s, err := o.c.Sessions.Get(ctx, i.ID, holdfast.WithTail())
	if err != nil {
		return nil, turn{}, err
	}
	return nil, turnOf(s), nil
}

// resourcePrefix is where the addresses of sessions begin.
const resourcePrefix = "holdfast://sessions/"

// transcript is a session as a resource.
type transcript struct {
	Session  session.Info      `json:"session"`
	Messages []session.Message `json:"messages"`
	Pending  []pending         `json:"pending,omitempty"`
}

func (o *offer) resource(ctx context.Context, in *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	ref := strings.TrimPrefix(in.Params.URI, resourcePrefix)
	found, err := o.c.Sessions.Resolve(ctx, ref)
	if errors.Is(err, session.ErrNotFound) {
		return nil, sdk.ResourceNotFoundError(in.Params.URI)
	}
	if err != nil {
		return nil, err
	}
	s, err := o.c.Sessions.Get(ctx, found.ID, holdfast.WithTail(), holdfast.Whole())
	if err != nil {
		return nil, err
	}
	shown := transcript{Session: s.Info(), Messages: []session.Message{}, Pending: pendingOf(s.ID(), s.PendingCalls())}
	for _, m := range s.All() {
		shown.Messages = append(shown.Messages, m)
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return nil, err
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: in.Params.URI, MIMEType: "application/json", Text: string(text)}}}, nil
}
