package server

import (
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/task"
)

// schemaOf returns the schema of a type.
func schemaOf[T any](r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// names are the names of types in the document where their own would say too
// little, or stand for two of them.
var names = map[reflect.Type]string{
	reflect.TypeFor[sessionHeader]():        "Session",
	reflect.TypeFor[agentDefinition]():      "Definition",
	reflect.TypeFor[logEntry]():             "Record",
	reflect.TypeFor[turn]():                 "Turn",
	reflect.TypeFor[task.Row]():             "Task",
	reflect.TypeFor[run]():                  "Run",
	reflect.TypeFor[task.Budget]():          "TaskBudget",
	reflect.TypeFor[task.ItemInput]():       "NewChecklistItem",
	reflect.TypeFor[sessionPage]():          "SessionPage",
	reflect.TypeFor[store.CommitInfo]():     "Version",
	reflect.TypeFor[store.Item]():           "InboxItem",
	reflect.TypeFor[memory.Page]():          "MessagePage",
	reflect.TypeFor[memory.Entry]():         "MemoryEntry",
	reflect.TypeFor[memory.Hit]():           "RecallHit",
	reflect.TypeFor[memory.Match]():         "RecallMatch",
	reflect.TypeFor[holdfast.PendingPage](): "PendingPage",
}

func schemaName(t reflect.Type, hint string) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name, ok := names[t]; ok {
		return name
	}
	if item := reflect.TypeFor[projector.Item](); t.PkgPath() == item.PkgPath() && t != item {
		return "Item" + t.Name() // Message and Usage stand for other types too
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// newSchemas returns the schemas of the document. It says how the types look in
// JSON that write it themselves; tests hold real responses against the result.
func newSchemas() huma.Registry {
	r := huma.NewMapRegistry("#/components/schemas/", schemaName)
	r.RegisterTypeAlias(reflect.TypeFor[huma.ErrorModel](), reflect.TypeFor[problem.Problem]())
	r.RegisterTypeAlias(reflect.TypeFor[session.Values](), reflect.TypeFor[map[string]any]())
	r.RegisterTypeAlias(reflect.TypeFor[session.Cost](), reflect.TypeFor[float64]())
	r.RegisterTypeAlias(reflect.TypeFor[session.Content](), reflect.TypeFor[anyContent]())
	r.RegisterTypeAlias(reflect.TypeFor[session.Info](), reflect.TypeFor[sessionHeader]())
	r.RegisterTypeAlias(reflect.TypeFor[session.Infos](), reflect.TypeFor[[]sessionHeader]())
	r.RegisterTypeAlias(reflect.TypeFor[session.Definition](), reflect.TypeFor[agentDefinition]())
	r.RegisterTypeAlias(reflect.TypeFor[session.LogEntry](), reflect.TypeFor[logEntry]())
	return r
}

// anyContent is the content of a message: a text, or a list of parts.
type anyContent struct{}

// Schema returns the schema.
func (anyContent) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "A text, or a list of parts: objects with a type such as text, image, file, audio or reasoning",
		OneOf: []*huma.Schema{
			{Type: huma.TypeString},
			{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}},
		},
	}
}

// sessionHeader is session.Info as JSON has it.
type sessionHeader struct {
	ID           string                      `json:"sessionId"`
	Name         string                      `json:"name"`
	Tenant       string                      `json:"tenant"`
	UserID       string                      `json:"userId"`
	ParentID     *string                     `json:"parentId" nullable:"true"`
	Origin       string                      `json:"origin"`
	Fork         orNull[session.ForkPoint]   `json:"fork"`
	Kind         session.Kind                `json:"kind"`
	Task         orNull[session.TaskRow]     `json:"task"`
	Workflow     orNull[session.WorkflowRow] `json:"workflow"`
	Depth        int                         `json:"depth"`
	Status       session.Status              `json:"status"`
	Version      int64                       `json:"version"`
	Seq          int64                       `json:"seq" doc:"The last change that belongs to the version"`
	AgentName    string                      `json:"agentName"`
	AgentLabel   string                      `json:"agentLabel"`
	MessageCount int                         `json:"messageCount"`
	Pending      int                         `json:"pending,omitempty" doc:"Calls that wait for a response"`
	CreatedAt    time.Time                   `json:"createdAt"`
	UpdatedAt    time.Time                   `json:"updatedAt"`
	ExpiresAt    *time.Time                  `json:"expiresAt" nullable:"true"`
}

// agentDefinition is session.Definition as JSON has it: everything but the name
// may be left out.
type agentDefinition struct {
	Name           string                         `json:"name"`
	Label          string                         `json:"label" required:"false"`
	Description    string                         `json:"description" required:"false"`
	SystemPrompt   string                         `json:"systemPrompt" required:"false"`
	Model          string                         `json:"model" required:"false" doc:"provider/model, or a name of this server"`
	ModelParams    orNull[session.ModelParams]    `json:"modelParams" required:"false"`
	Tools          []string                       `json:"tools" required:"false" doc:"null: every tool; empty: none"`
	ToolsDeny      []string                       `json:"toolsDeny" required:"false"`
	Skills         []string                       `json:"skills" required:"false"`
	Capabilities   []string                       `json:"capabilities" required:"false"`
	Subagents      []string                       `json:"subagents" required:"false"`
	MCP            []session.MCPServer            `json:"mcp" required:"false"`
	ResponseFormat orNull[session.ResponseFormat] `json:"responseFormat" required:"false"`
	Budget         orNull[session.Budget]         `json:"budget" required:"false"`
	Memory         orNull[session.MemoryPolicy]   `json:"memory" required:"false"`
	Metadata       map[string]any                 `json:"metadata" required:"false"`
}

// logEntry is a change as a log shows it.
type logEntry struct {
	Seq       int64          `json:"seq"`
	At        time.Time      `json:"at"`
	Kind      string         `json:"kind" doc:"What happened; docs/reference.md lists the kinds"`
	Data      map[string]any `json:"data"`
	Version   int64          `json:"version" doc:"The version that it belongs to; 0: none yet"`
	Discarded bool           `json:"discarded,omitempty"`
}

// orNull is a T or null.
type orNull[T any] struct{}

// Schema returns the schema.
func (orNull[T]) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{schemaOf[T](r), {Type: "null"}}}
}
