package provtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// chat is the Chat Completions protocol.
type chat struct{}

func (chat) path() string      { return "/v1/chat/completions" }
func (chat) lastEvent() string { return "[DONE]" }

func (chat) frame(event, newline string) string { return "data: " + event + newline + newline }

func (chat) streams(r Request) bool { return r.JSON()["stream"] == true }

func (chat) errorBody(no refusal) string {
	return encode(object{"error": object{"message": no.message, "type": no.kind, "code": orNull(no.code), "param": orNull(no.param)}})
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

var chatFields = []string{
	"audio", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "messages", "metadata", "modalities",
	"model", "n", "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key", "reasoning_effort", "response_format",
	"seed", "service_tier", "stop", "store", "stream", "stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p",
	"user", "verbosity",
}

func (c chat) check(r Request, _ string) *refusal {
	body, no := decodeBody(r)
	if no != nil {
		return no
	}
	if str(body["model"]) == "" {
		return bad("model", "you must provide a model parameter")
	}
	if _, asked := body["stream_options"]; asked && body["stream"] != true {
		return bad("stream_options", "the 'stream_options' parameter is only allowed when 'stream' is enabled")
	}
	return firstRefusal(
		onlyKnown(body, chatFields),
		positive(body, "max_tokens"), positive(body, "max_completion_tokens"),
		upTo(body, "temperature", 2), upTo(body, "top_p", 1),
		c.tools(body), c.format(body), c.messages(body),
	)
}

func (chat) tools(body object) *refusal {
	if _, there := body["tools"]; !there {
		return nil
	}
	all, ok := list(body["tools"])
	if !ok || len(all) == 0 {
		return bad("tools", "[] is too short - 'tools'")
	}
	var seen []string
	for i, t := range all {
		f, ok := t["function"].(object)
		if !ok || t["type"] != "function" {
			return bad("tools", "tools[%d] is no function", i)
		}
		name := str(f["name"])
		if !goodName.MatchString(name) || slices.Contains(seen, name) {
			return bad("tools", "tools[%d].function.name %q does not match the pattern, or is there twice", i, name)
		}
		if !goodSchema(f["parameters"]) {
			return bad("tools", "invalid schema for function %q: type is not \"object\"", name)
		}
		seen = append(seen, name)
	}
	return nil
}

func (chat) format(body object) *refusal {
	f, there := body["response_format"].(object)
	if !there {
		return nil
	}
	switch f["type"] {
	case "text", "json_object":
		return nil
	case "json_schema":
		s, ok := f["json_schema"].(object)
		if !ok || !goodName.MatchString(str(s["name"])) {
			return bad("response_format", "missing required parameter: 'response_format.json_schema.name'")
		}
		if _, ok := s["schema"].(object); !ok {
			return bad("response_format", "missing required parameter: 'response_format.json_schema.schema'")
		}
		return nil
	}
	return bad("response_format", "unknown type %v", f["type"])
}

// messages refuses a transcript in a wrong order.
func (c chat) messages(body object) *refusal {
	all, ok := list(body["messages"])
	if !ok || len(all) == 0 {
		return bad("messages", "[] is too short - 'messages'")
	}
	var waiting []string // calls without a result
	for i, m := range all {
		role := str(m["role"])
		if len(waiting) > 0 && role != "tool" {
			return bad("messages", "an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id': %v", waiting)
		}
		if name, named := m["name"]; named && !goodName.MatchString(str(name)) {
			return bad("messages", "messages[%d].name does not match the pattern", i)
		}
		var no *refusal
		switch role {
		case "system", "developer":
			no = c.text(i, m["content"])
		case "user":
			no = c.user(i, m["content"])
		case "assistant":
			waiting, no = c.assistant(i, m)
		case "tool":
			at := slices.Index(waiting, str(m["tool_call_id"]))
			if at < 0 {
				return bad("messages", "messages with role 'tool' must be a response to a preceding message with 'tool_calls'")
			}
			waiting = slices.Delete(waiting, at, at+1)
			no = c.text(i, m["content"])
		default:
			no = bad("messages", "messages[%d].role %q is unknown", i, role)
		}
		if no != nil {
			return no
		}
	}
	if len(waiting) > 0 {
		return bad("messages", "the calls %v have no tool message", waiting)
	}
	return nil
}

func (chat) text(i int, v any) *refusal {
	if _, ok := v.(string); !ok {
		return bad("messages", "messages[%d].content is no string", i)
	}
	return nil
}

func (chat) user(i int, v any) *refusal {
	if _, ok := v.(string); ok {
		return nil
	}
	parts, ok := list(v)
	if !ok || len(parts) == 0 {
		return bad("messages", "messages[%d].content is neither text nor parts", i)
	}
	for _, p := range parts {
		if !goodChatPart(p) {
			return bad("messages", "messages[%d].content has an invalid part of type %v", i, p["type"])
		}
	}
	return nil
}

func goodChatPart(p object) bool {
	kind := str(p["type"])
	inner, _ := p[kind].(object) // nil has no fields
	switch kind {
	case "text":
		return str(p["text"]) != ""
	case "image_url":
		link := str(inner["url"])
		return goodLink(link) || strings.HasPrefix(link, "data:image/") && goodDataURL(link)
	case "file":
		return str(inner["file_id"]) != "" || str(inner["filename"]) != "" && goodDataURL(str(inner["file_data"]))
	case "input_audio":
		return goodBase64(inner["data"]) && slices.Contains([]string{"wav", "mp3"}, str(inner["format"]))
	}
	return false
}

// assistant checks an earlier answer and lists its calls.
func (chat) assistant(i int, m object) ([]string, *refusal) {
	text, _ := m["content"].(string) // null is no text
	raw, called := m["tool_calls"]
	if !called && text == "" {
		return nil, bad("messages", "messages[%d] must have either content or tool calls", i)
	}
	if !called {
		return nil, nil
	}
	calls, ok := list(raw)
	if !ok || len(calls) == 0 {
		return nil, bad("messages", "[] is too short - 'messages.%d.tool_calls'", i)
	}
	var ids []string
	for _, call := range calls {
		id := str(call["id"])
		f, _ := call["function"].(object) // nil has no fields
		var arguments object
		switch {
		case id == "" || len(id) > 40 || slices.Contains(ids, id):
			return nil, bad("messages", "messages[%d].tool_calls: id %q is empty, too long or repeated", i, id)
		case call["type"] != "function" || !goodName.MatchString(str(f["name"])):
			return nil, bad("messages", "messages[%d].tool_calls: name %q does not match the pattern", i, str(f["name"]))
		case json.Unmarshal([]byte(str(f["arguments"])), &arguments) != nil:
			return nil, bad("messages", "messages[%d].tool_calls: arguments are no JSON object", i)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (chat) finish(reply Reply) string {
	switch {
	case reply.Finish != "":
		return reply.Finish
	case len(reply.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func (chat) usage(u Usage) object {
	return object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     object{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

func (c chat) events(reply Reply, r Request) []string {
	body := r.JSON()
	head := object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": modelOf(reply, body)}
	event := func(delta object, finish any) string {
		head["choices"] = []object{{"index": 0, "delta": delta, "finish_reason": finish}}
		return encode(head)
	}
	events := []string{event(object{"role": "assistant", "content": ""}, nil)}
	for _, t := range reply.Reasoning {
		events = append(events, event(object{"reasoning_content": t}, nil))
	}
	for _, t := range reply.Text {
		events = append(events, event(object{"content": t}, nil))
	}
	for i, call := range reply.Calls {
		piece := object{"index": i, "id": call.ID, "type": "function", "function": object{"name": call.Name, "arguments": ""}}
		events = append(events, event(object{"tool_calls": []object{piece}}, nil))
		for _, a := range call.Arguments {
			piece := object{"index": i, "function": object{"arguments": a}}
			events = append(events, event(object{"tool_calls": []object{piece}}, nil))
		}
	}
	events = append(events, event(object{}, c.finish(reply)))
	if options, ok := body["stream_options"].(object); ok && options["include_usage"] == true {
		head["choices"], head["usage"] = []object{}, c.usage(reply.Usage)
		events = append(events, encode(head))
	}
	return events
}

func (c chat) document(reply Reply, r Request) string {
	said := object{"role": "assistant", "content": strings.Join(reply.Text, "")}
	if len(reply.Reasoning) > 0 {
		said["reasoning_content"] = strings.Join(reply.Reasoning, "")
	}
	var calls []object
	for _, call := range reply.Calls {
		calls = append(calls, object{"id": call.ID, "type": "function", "function": object{"name": call.Name, "arguments": strings.Join(call.Arguments, "")}})
	}
	if calls != nil {
		said["tool_calls"] = calls
	}
	return encode(object{
		"id": "chatcmpl-1", "object": "chat.completion", "model": modelOf(reply, r.JSON()), "usage": c.usage(reply.Usage),
		"choices": []object{{"index": 0, "message": said, "finish_reason": c.finish(reply)}},
	})
}

// modelOf returns the name of the model in the answer.
func modelOf(reply Reply, body object) string {
	if reply.Model != "" {
		return reply.Model
	}
	return fmt.Sprint(body["model"])
}
