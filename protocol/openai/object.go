package openai

// response is the object of a response.
type response struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"`
	CreatedAt          int64             `json:"created_at"`
	CompletedAt        *int64            `json:"completed_at"`
	Status             string            `json:"status"`
	Background         bool              `json:"background"`
	Error              *responseError    `json:"error"`
	IncompleteDetails  *incomplete       `json:"incomplete_details"`
	Instructions       *string           `json:"instructions"`
	MaxOutputTokens    *int              `json:"max_output_tokens"`
	MaxToolCalls       *int              `json:"max_tool_calls"`
	Model              string            `json:"model"`
	Output             []item            `json:"output"`
	ParallelToolCalls  bool              `json:"parallel_tool_calls"`
	PreviousResponseID *string           `json:"previous_response_id"`
	Conversation       *conversationID   `json:"conversation"`
	Reasoning          *struct{}         `json:"reasoning"`
	Store              bool              `json:"store"`
	Temperature        *float64          `json:"temperature"`
	Text               textOption        `json:"text"`
	ToolChoice         string            `json:"tool_choice"`
	Tools              []functionTool    `json:"tools"`
	TopP               *float64          `json:"top_p"`
	PresencePenalty    float64           `json:"presence_penalty"`
	FrequencyPenalty   float64           `json:"frequency_penalty"`
	TopLogprobs        int               `json:"top_logprobs"`
	Truncation         string            `json:"truncation"`
	ServiceTier        string            `json:"service_tier"`
	SafetyIdentifier   *string           `json:"safety_identifier"`
	PromptCacheKey     *string           `json:"prompt_cache_key"`
	Usage              *usage            `json:"usage"`
	Metadata           map[string]string `json:"metadata"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

type conversationID struct {
	ID string `json:"id"`
}

type usage struct {
	InputTokens        int64 `json:"input_tokens"`
	InputTokensDetails struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens        int64 `json:"output_tokens"`
	OutputTokensDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int64 `json:"total_tokens"`
}

// item is something said or done: the fields that its type has are set.
type item struct {
	ID          string  `json:"id,omitempty"`
	Type        string  `json:"type"`
	Status      string  `json:"status,omitempty"`
	Role        string  `json:"role,omitempty"`
	Content     []part  `json:"content,omitzero"`
	Summary     *[]part `json:"summary,omitempty"`
	CallID      string  `json:"call_id,omitempty"`
	Name        string  `json:"name,omitempty"`
	Arguments   *string `json:"arguments,omitempty"`
	Output      *string `json:"output,omitempty"`
	Error       *string `json:"error,omitempty"`
	ServerLabel string  `json:"server_label,omitempty"`

	EncryptedContent string `json:"encrypted_content,omitempty"` // of a compaction
}

// part is a piece of content.
type part struct {
	Type        string    `json:"type"`
	Text        *string   `json:"text,omitempty"`
	Annotations *[]string `json:"annotations,omitempty"`
	Logprobs    *[]string `json:"logprobs,omitempty"`
	ImageURL    string    `json:"image_url,omitempty"`
	Detail      string    `json:"detail,omitempty"`
	FileData    string    `json:"file_data,omitempty"`
	FileURL     string    `json:"file_url,omitempty"`
	Filename    string    `json:"filename,omitempty"`
	Refusal     string    `json:"refusal,omitempty"`
}

// outputText is a piece of what a model said.
func outputText(text string) part {
	return part{Type: "output_text", Text: &text, Annotations: &[]string{}, Logprobs: &[]string{}}
}

// event is one event of a stream.
type event struct {
	Type           string    `json:"type"`
	SequenceNumber int64     `json:"sequence_number"`
	Response       *response `json:"response,omitempty"`
	OutputIndex    *int      `json:"output_index,omitempty"`
	ItemID         string    `json:"item_id,omitempty"`
	ContentIndex   *int      `json:"content_index,omitempty"`
	Item           *item     `json:"item,omitempty"`
	Part           *part     `json:"part,omitempty"`
	Delta          *string   `json:"delta,omitempty"`
	Text           *string   `json:"text,omitempty"`
	Name           string    `json:"name,omitempty"`
	Arguments      *string   `json:"arguments,omitempty"`
	Logprobs       *[]string `json:"logprobs,omitempty"`
	Code           *string   `json:"code,omitempty"`
	Message        string    `json:"message,omitempty"`
}
