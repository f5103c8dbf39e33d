package provtest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// messages is the Messages protocol.
type messages struct{}

func (messages) path() string      { return "/v1/messages" }
func (messages) lastEvent() string { return encode(object{"type": "message_stop"}) }

// frame names the event before it.
func (messages) frame(event, newline string) string {
	var named struct {
		Type string `json:"type"`
	}
	if json.Unmarshal([]byte(event), &named) != nil { // a broken event has no name
		return "data: " + event + newline + newline
	}
	return "event: " + named.Type + newline + "data: " + event + newline + newline
}

func (messages) streams(r Request) bool { return r.JSON()["stream"] == true }

func (messages) errorBody(no refusal) string {
	return encode(object{"type": "error", "error": object{"type": no.kind, "message": no.message}})
}

var messagesFields = []string{
	"cache_control", "container", "context_management", "inference_geo", "max_tokens", "mcp_servers", "messages", "metadata", "model",
	"output_config", "service_tier", "stop_sequences", "stream", "system", "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p",
}

func (m messages) check(r Request, key string) *refusal {
	if key != "" && r.Header.Get("X-Api-Key") == "" {
		return &refusal{status: http.StatusUnauthorized, kind: "authentication_error", message: "x-api-key header is required"}
	}
	if r.Header.Get("Anthropic-Version") != "2023-06-01" {
		return bad("", "anthropic-version: header is required")
	}
	body, no := decodeBody(r)
	if no != nil {
		return no
	}
	if str(body["model"]) == "" {
		return bad("model", "model: Field required")
	}
	if _, there := body["max_tokens"]; !there {
		return bad("max_tokens", "max_tokens: Field required")
	}
	return firstRefusal(
		onlyKnown(body, messagesFields), positive(body, "max_tokens"), upTo(body, "temperature", 1), upTo(body, "top_p", 1),
		m.thinking(body), m.system(body), m.stop(body), m.tools(body), m.format(body), m.transcript(body),
	)
}

func (messages) thinking(body object) *refusal {
	t, there := body["thinking"].(object)
	if budget, ok := t["budget_tokens"].(float64); there && ok {
		if most, _ := body["max_tokens"].(float64); budget >= most { // checked before
			return bad("max_tokens", "`max_tokens` must be greater than `thinking.budget_tokens`")
		}
	}
	return nil
}

func (messages) system(body object) *refusal {
	if v, there := body["system"]; there && blank(str(v)) {
		return bad("system", "system: text content blocks must be non-empty")
	}
	return nil
}

func (messages) stop(body object) *refusal {
	all, _ := body["stop_sequences"].([]any) // no list is an empty one
	for _, s := range all {
		if blank(str(s)) {
			return bad("stop_sequences", "stop_sequences: each stop sequence must contain non-whitespace")
		}
	}
	return nil
}

func (messages) tools(body object) *refusal {
	all, ok := list(body["tools"])
	if _, there := body["tools"]; there && !ok {
		return bad("tools", "tools: Input should be a valid list")
	}
	var seen []string
	for i, t := range all {
		name := str(t["name"])
		if !goodName.MatchString(name) || slices.Contains(seen, name) {
			return bad("tools", "tools.%d.name: %q does not match the pattern, or is not unique", i, name)
		}
		if _, theirs := t["type"]; !theirs && !goodSchema(t["input_schema"]) {
			return bad("tools", "tools.%d.input_schema.type: Field required", i)
		}
		seen = append(seen, name)
	}
	return nil
}

func (messages) format(body object) *refusal {
	config, there := body["output_config"].(object)
	if !there {
		return nil
	}
	f, _ := config["format"].(object) // nil has no fields
	if _, ok := f["schema"].(object); !ok || f["type"] != "json_schema" {
		return bad("output_config", "output_config.format: a json_schema with a schema is required")
	}
	return nil
}

// transcript refuses a transcript in a wrong order.
func (m messages) transcript(body object) *refusal {
	all, ok := list(body["messages"])
	if !ok || len(all) == 0 {
		return bad("messages", "messages: at least one message is required")
	}
	var waiting []string // calls of the turn before
	used := map[string]bool{}
	for i, t := range all {
		want := []string{"user", "assistant"}[i%2]
		if t["role"] != want {
			return bad("messages", "messages: roles must alternate between \"user\" and \"assistant\", but messages.%d is %v", i, t["role"])
		}
		blocks, ok := list(t["content"])
		if !ok {
			if blank(str(t["content"])) {
				return bad("messages", "messages.%d: all messages must have non-empty content", i)
			}
			blocks = []object{{"type": "text", "text": t["content"]}}
		}
		if len(blocks) == 0 {
			return bad("messages", "messages.%d: all messages must have non-empty content", i)
		}
		var no *refusal
		if want == "user" {
			no = m.user(i, blocks, waiting)
			waiting = nil
		} else {
			waiting, no = m.assistant(i, blocks, used)
		}
		if no != nil {
			return no
		}
	}
	if len(all)%2 == 0 {
		return bad("messages", "this model does not support assistant message prefill: the conversation must end with a user message")
	}
	if tools, _ := list(body["tools"]); len(used) > 0 && len(tools) == 0 {
		return bad("tools", "requests which include `tool_use` or `tool_result` blocks must define tools")
	}
	return nil
}

// user checks a user's message: results for all calls first, then the rest.
func (messages) user(i int, blocks []object, waiting []string) *refusal {
	spoken := false
	for k, b := range blocks {
		switch b["type"] {
		case "tool_result":
			at := slices.Index(waiting, str(b["tool_use_id"]))
			if at < 0 || spoken {
				return bad("messages", "messages.%d.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %v", i, k, b["tool_use_id"])
			}
			waiting = slices.Delete(slices.Clone(waiting), at, at+1)
			inner, isList := list(b["content"])
			_, there := b["content"]
			if there && !isList && str(b["content"]) == "" || slices.ContainsFunc(inner, func(o object) bool { return !goodBlock(o) }) {
				return bad("messages", "messages.%d.content.%d: tool_result has invalid content", i, k)
			}
		default:
			if !goodBlock(b) {
				return bad("messages", "messages.%d.content.%d: invalid block of type %v", i, k, b["type"])
			}
			spoken = true
		}
	}
	if len(waiting) > 0 {
		return bad("messages", "messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %v", i, waiting)
	}
	return nil
}

// goodBlock reports a valid text, image or document.
func goodBlock(b object) bool {
	source, _ := b["source"].(object) // nil has no fields
	images := []string{"image/jpeg", "image/png", "image/gif", "image/webp"}
	switch b["type"] {
	case "text":
		return !blank(str(b["text"]))
	case "image":
		return source["type"] == "url" && goodLink(str(source["url"])) || source["type"] == "file" && str(source["file_id"]) != "" ||
			source["type"] == "base64" && slices.Contains(images, str(source["media_type"])) && goodBase64(source["data"])
	case "document":
		return source["type"] == "url" && goodLink(str(source["url"])) || source["type"] == "file" && str(source["file_id"]) != "" ||
			source["type"] == "text" && source["media_type"] == "text/plain" && !blank(str(source["data"])) ||
			source["type"] == "base64" && source["media_type"] == "application/pdf" && goodBase64(source["data"])
	}
	return false
}

var callPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// assistant checks an earlier answer and lists its calls.
func (messages) assistant(i int, blocks []object, used map[string]bool) ([]string, *refusal) {
	var ids []string
	for k, b := range blocks {
		switch b["type"] {
		case "text":
			if blank(str(b["text"])) {
				return nil, bad("messages", "messages.%d.content.%d: text content blocks must contain non-whitespace text", i, k)
			}
		case "thinking":
			if str(b["signature"]) == "" {
				return nil, bad("messages", "messages.%d.content.%d.thinking.signature: Field required", i, k)
			}
		case "redacted_thinking":
			if str(b["data"]) == "" {
				return nil, bad("messages", "messages.%d.content.%d.redacted_thinking.data: Field required", i, k)
			}
		case "server_tool_use", "web_search_tool_result":
		case "tool_use":
			id := str(b["id"])
			_, isObject := b["input"].(object)
			if !callPattern.MatchString(id) || used[id] || !isObject || !goodName.MatchString(str(b["name"])) {
				return nil, bad("messages", "messages.%d.content.%d.tool_use: id %q, name %q or input is invalid, or the id is not unique", i, k, id, str(b["name"]))
			}
			used[id] = true
			ids = append(ids, id)
		default:
			return nil, bad("messages", "messages.%d.content.%d: block of type %v", i, k, b["type"])
		}
	}
	return ids, nil
}

func (messages) finish(reply Reply) string {
	switch {
	case reply.Finish != "":
		return reply.Finish
	case len(reply.Calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func (messages) usage(u Usage) object {
	return object{
		"input_tokens": u.Input, "output_tokens": u.Output, "cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite,
	}
}

func (m messages) events(reply Reply, r Request) []string {
	begun := reply.Usage
	begun.Output = 1
	events := []string{
		encode(object{"type": "message_start", "message": object{
			"id": "msg_1", "type": "message", "role": "assistant", "model": modelOf(reply, r.JSON()), "content": []any{}, "stop_reason": nil, "usage": m.usage(begun),
		}}),
		encode(object{"type": "ping"}),
	}
	index := 0
	block := func(start object, deltas ...object) {
		events = append(events, encode(object{"type": "content_block_start", "index": index, "content_block": start}))
		for _, d := range deltas {
			events = append(events, encode(object{"type": "content_block_delta", "index": index, "delta": d}))
		}
		events = append(events, encode(object{"type": "content_block_stop", "index": index}))
		index++
	}
	if len(reply.Reasoning) > 0 {
		deltas := pieces("thinking_delta", "thinking", reply.Reasoning)
		block(object{"type": "thinking", "thinking": "", "signature": ""}, append(deltas, object{"type": "signature_delta", "signature": reply.Signature})...)
	}
	if len(reply.Text) > 0 {
		block(object{"type": "text", "text": ""}, pieces("text_delta", "text", reply.Text)...)
	}
	for _, call := range reply.Calls {
		block(object{"type": "tool_use", "id": call.ID, "name": call.Name, "input": object{}}, pieces("input_json_delta", "partial_json", call.Arguments)...)
	}
	return append(events, encode(object{
		"type": "message_delta", "delta": object{"stop_reason": m.finish(reply), "stop_sequence": nil}, "usage": object{"output_tokens": reply.Usage.Output},
	}))
}

func pieces(kind, field string, texts []string) []object {
	var all []object
	for _, t := range texts {
		all = append(all, object{"type": kind, field: t})
	}
	return all
}

func (m messages) document(reply Reply, r Request) string {
	var content []object
	if len(reply.Reasoning) > 0 {
		content = append(content, object{"type": "thinking", "thinking": strings.Join(reply.Reasoning, ""), "signature": reply.Signature})
	}
	if len(reply.Text) > 0 {
		content = append(content, object{"type": "text", "text": strings.Join(reply.Text, "")})
	}
	for _, call := range reply.Calls {
		input := json.RawMessage(strings.Join(call.Arguments, ""))
		if len(input) == 0 {
			input = json.RawMessage("{}")
		}
		content = append(content, object{"type": "tool_use", "id": call.ID, "name": call.Name, "input": input})
	}
	return encode(object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": modelOf(reply, r.JSON()), "content": content,
		"stop_reason": m.finish(reply), "usage": m.usage(reply.Usage),
	})
}
