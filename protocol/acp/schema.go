package acp

import "encoding/json"

// The messages of the protocol, version 1, as far as they are used here. Fields
// that are not listed are optional and not used.

type initializeRequest struct {
	ProtocolVersion    int                `json:"protocolVersion"`
	ClientCapabilities clientCapabilities `json:"clientCapabilities"`
}

type clientCapabilities struct {
	Elicitation *struct {
		Form *struct{} `json:"form"`
	} `json:"elicitation"`
}

// none is an object without fields; its presence says that something is offered.
type none struct{}

type initializeResponse struct {
	ProtocolVersion   int               `json:"protocolVersion"`
	AgentCapabilities agentCapabilities `json:"agentCapabilities"`
	AgentInfo         implementation    `json:"agentInfo"`
	AuthMethods       []none            `json:"authMethods"`
}

type implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

type agentCapabilities struct {
	LoadSession         bool                `json:"loadSession"`
	PromptCapabilities  promptCapabilities  `json:"promptCapabilities"`
	MCPCapabilities     mcpCapabilities     `json:"mcpCapabilities"`
	SessionCapabilities sessionCapabilities `json:"sessionCapabilities"`
}

type promptCapabilities struct {
	Image           bool `json:"image"`
	Audio           bool `json:"audio"`
	EmbeddedContext bool `json:"embeddedContext"`
}

type mcpCapabilities struct {
	HTTP bool `json:"http"`
	SSE  bool `json:"sse"`
}

type sessionCapabilities struct {
	List   none `json:"list"`
	Delete none `json:"delete"`
	Resume none `json:"resume"`
	Close  none `json:"close"`
}

// openRequest is that of session/new, session/load and session/resume.
type openRequest struct {
	SessionID             string      `json:"sessionId"`
	Dir                   string      `json:"cwd"`
	AdditionalDirectories []string    `json:"additionalDirectories"`
	MCPServers            []mcpServer `json:"mcpServers"`
}

type mcpServer struct {
	Type    string     `json:"type"` // empty: stdio
	Name    string     `json:"name"`
	Command string     `json:"command"`
	Args    []string   `json:"args"`
	Env     []variable `json:"env"`
	URL     string     `json:"url"`
	Headers []variable `json:"headers"`
}

type variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type openResponse struct {
	SessionID string     `json:"sessionId,omitempty"` // of session/new
	Modes     *modeState `json:"modes,omitempty"`
}

type modeState struct {
	CurrentModeID  string `json:"currentModeId"`
	AvailableModes []mode `json:"availableModes"`
}

type mode struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

type sessionRequest struct {
	SessionID string `json:"sessionId"`
}

type setModeRequest struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId"`
}

type listRequest struct {
	Dir    string `json:"cwd"`
	Cursor string `json:"cursor"`
}

type listResponse struct {
	Sessions   []sessionInfo `json:"sessions"`
	NextCursor string        `json:"nextCursor,omitempty"`
}

type sessionInfo struct {
	SessionID string `json:"sessionId"`
	Dir       string `json:"cwd"`
	Title     string `json:"title,omitempty"`
	UpdatedAt string `json:"updatedAt,omitempty"`
}

type promptRequest struct {
	SessionID string         `json:"sessionId"`
	Prompt    []contentBlock `json:"prompt"`
}

type promptResponse struct {
	StopReason string `json:"stopReason"`
}

// contentBlock is a text, an image, an audio, a resource_link or a resource.
type contentBlock struct {
	Type     string    `json:"type"`
	Text     *string   `json:"text,omitempty"`
	Data     string    `json:"data,omitempty"`
	MimeType string    `json:"mimeType,omitempty"`
	URI      string    `json:"uri,omitempty"`
	Name     string    `json:"name,omitempty"`
	Resource *resource `json:"resource,omitempty"`
}

type resource struct {
	URI      string  `json:"uri"`
	MimeType string  `json:"mimeType,omitempty"`
	Text     *string `json:"text,omitempty"`
	Blob     *string `json:"blob,omitempty"`
}

// sessionUpdate is one notification. Its Update has a field sessionUpdate that
// says which of the kinds below it is.
type sessionUpdate struct {
	SessionID string `json:"sessionId"`
	Update    any    `json:"update"`
}

// chunk is a user_message_chunk, an agent_message_chunk or an
// agent_thought_chunk.
type chunk struct {
	Kind      string       `json:"sessionUpdate"`
	Content   contentBlock `json:"content"`
	MessageID string       `json:"messageId,omitempty"`
}

// toolCall is a tool_call, a tool_call_update or, without a kind, the call that
// a permission is asked for.
type toolCall struct {
	Kind      string          `json:"sessionUpdate,omitempty"`
	ID        string          `json:"toolCallId"`
	Title     string          `json:"title,omitempty"`
	Name      string          `json:"name,omitempty"`
	ToolKind  string          `json:"kind,omitempty"`
	Status    string          `json:"status,omitempty"`
	Content   []toolContent   `json:"content,omitempty"`
	Locations []location      `json:"locations,omitempty"`
	RawInput  json.RawMessage `json:"rawInput,omitempty"`
}

// toolContent is a content or a diff.
type toolContent struct {
	Type    string        `json:"type"`
	Content *contentBlock `json:"content,omitempty"`
	Path    string        `json:"path,omitempty"`
	OldText *string       `json:"oldText,omitempty"`
	NewText *string       `json:"newText,omitempty"`
}

type location struct {
	Path string `json:"path"`
}

type planUpdate struct {
	Kind    string      `json:"sessionUpdate"`
	Entries []planEntry `json:"entries"`
}

type planEntry struct {
	Content  string `json:"content"`
	Priority string `json:"priority"`
	Status   string `json:"status"`
}

type usageUpdate struct {
	Kind string `json:"sessionUpdate"`
	Used int64  `json:"used"`
	Size int64  `json:"size"`
	Cost *money `json:"cost,omitempty"`
}

type money struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
}

type infoUpdate struct {
	Kind  string `json:"sessionUpdate"`
	Title string `json:"title"`
}

type commandsUpdate struct {
	Kind     string             `json:"sessionUpdate"`
	Commands []availableCommand `json:"availableCommands"`
}

type availableCommand struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Input       *commandInput `json:"input,omitempty"`
}

type commandInput struct {
	Hint string `json:"hint"`
}

type modeUpdate struct {
	Kind   string `json:"sessionUpdate"`
	ModeID string `json:"currentModeId"`
}

type permissionRequest struct {
	SessionID string             `json:"sessionId"`
	ToolCall  toolCall           `json:"toolCall"`
	Options   []permissionOption `json:"options"`
}

type permissionOption struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"`
}

type permissionResponse struct {
	Outcome struct {
		Outcome  string `json:"outcome"`
		OptionID string `json:"optionId"`
	} `json:"outcome"`
}

// elicitationRequest asks a person to fill in a form of one field.
type elicitationRequest struct {
	SessionID       string     `json:"sessionId"`
	Mode            string     `json:"mode"`
	Message         string     `json:"message"`
	RequestedSchema formSchema `json:"requestedSchema"`
}

type formSchema struct {
	Type       string               `json:"type"`
	Properties map[string]formField `json:"properties"`
	Required   []string             `json:"required"`
}

type formField struct {
	Type  string       `json:"type"`
	Title string       `json:"title"`
	OneOf []formChoice `json:"oneOf,omitempty"`
}

type formChoice struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

type elicitationResponse struct {
	Action  string            `json:"action"`
	Content map[string]string `json:"content"`
}
