package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

// input is what a request says.
type input struct {
	earlier   []session.Message  // what was said before, in a request that resends it
	message   *session.Message   // what the user says now
	responses []session.Response // to calls that wait; the id of the call or of the approval
}

// inputItem is an item as clients send it.
type inputItem struct {
	item
	Content           json.RawMessage `json:"content"`
	Output            json.RawMessage `json:"output"`
	ApprovalRequestID string          `json:"approval_request_id"`
	Approve           bool            `json:"approve"`
	Reason            string          `json:"reason"`
	Phase             json.RawMessage `json:"phase"`
}

// parseMessages reads an input that is no request of a turn; there may be none.
func (x *exchange) parseMessages(raw json.RawMessage) ([]session.Message, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []session.Message{{Role: session.RoleUser, Content: session.Text(text)}}, nil
	}
	messages, _, err := x.parseItems("input", raw)
	return messages, err
}

// parseInput reads the input of a response.
func (x *exchange) parseInput(raw json.RawMessage) (input, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return input{message: &session.Message{Role: session.RoleUser, Content: session.Text(text)}}, nil
	}
	messages, approvals, err := x.parseItems("input", raw)
	if err != nil {
		return input{}, err
	}
	return newInput(messages, approvals), nil
}

// newInput divides messages into what was said before and what is said now: the
// last messages of the user, or the results of the last calls.
func newInput(messages []session.Message, approvals []session.Response) input {
	in := input{responses: approvals}
	n := len(messages)
	for n > 0 && messages[n-1].Role == session.RoleUser {
		n--
	}
	if n < len(messages) {
		last := messages[n].Clone()
		for _, m := range messages[n+1:] {
			last.Content = append(last.Content, m.Content...)
		}
		in.message = &last
	} else {
		for n > 0 && messages[n-1].Role == session.RoleTool {
			n--
		}
		for _, m := range messages[n:] {
			in.responses = append(in.responses, session.Response{PendingID: m.ToolResult.CallID, Action: session.RespondResult, Text: m.ToolResult.Content})
		}
	}
	in.earlier = messages[:n]
	return in
}

// parseItems reads items as messages.
func (x *exchange) parseItems(param string, raw json.RawMessage) (messages []session.Message, approvals []session.Response, err error) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, nil, refuse(param, "'%s' is neither a text nor a list of items.", param)
	}
	names := map[string]string{} // of tools, by call
	for n, one := range list {
		at := fmt.Sprintf("%s[%d]", param, n)
		var i inputItem
		if err := decodeStrict(one, &i); err != nil {
			return nil, nil, err
		}
		switch {
		case i.Type == "message" || i.Type == "" && i.Role != "":
			m, err := i.message(at)
			if err != nil {
				return nil, nil, err
			}
			messages = append(messages, m)
		case i.Type == "function_call" && i.Arguments != nil:
			names[i.CallID] = i.Name
			call := session.ToolCall{ID: i.CallID, Name: i.Name, Arguments: json.RawMessage(*i.Arguments)}
			if last := len(messages) - 1; last >= 0 && messages[last].Role == session.RoleAssistant {
				messages[last].ToolCalls = append(messages[last].ToolCalls, call)
			} else {
				messages = append(messages, session.Message{Role: session.RoleAssistant, ToolCalls: []session.ToolCall{call}})
			}
		case i.Type == "function_call_output":
			text, err := outputOf(at, i.Output)
			if err != nil {
				return nil, nil, err
			}
			messages = append(messages, session.Message{Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: i.CallID, ToolName: names[i.CallID], Content: text}})
		case i.Type == "mcp_approval_response":
			r := session.Response{PendingID: strings.TrimPrefix(i.ApprovalRequestID, approvalPrefix), Action: session.RespondDeny, Text: i.Reason}
			if i.Approve {
				r.Action, r.Text = session.RespondApprove, ""
			}
			approvals = append(approvals, r)
		case i.Type == "compaction":
			m, err := x.summaryOf(at, i.EncryptedContent)
			if err != nil {
				return nil, nil, err
			}
			messages = append(messages, m)
		case i.Type == "reasoning": // what a model thought is not said to it again
		default:
			return nil, nil, refuse(at+".type", "Items of the type '%s' are not supported here.", i.Type)
		}
	}
	return messages, approvals, nil
}

func (i inputItem) message(at string) (session.Message, error) {
	m := session.Message{Role: session.Role(i.Role)}
	if !slices.Contains([]session.Role{session.RoleUser, session.RoleAssistant, session.RoleSystem, session.RoleDeveloper}, m.Role) {
		return m, refuse(at+".role", "'%s' is not user, assistant, system or developer.", i.Role)
	}
	var err error
	m.Content, err = parseContent(at+".content", i.Content)
	return m, err
}

// parseContent reads a text or a list of parts.
func parseContent(at string, raw json.RawMessage) (session.Content, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return session.Text(text), nil
	}
	var parts []part
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, refuse(at, "'%s' is neither a text nor a list of parts.", at)
	}
	var content session.Content
	for _, p := range parts {
		switch {
		case p.Text != nil && slices.Contains([]string{"input_text", "output_text", "text"}, p.Type):
			content = append(content, session.Part{Type: session.PartText, Text: *p.Text})
		case p.Type == "refusal":
			content = append(content, session.Part{Type: session.PartText, Text: p.Refusal})
		case p.Type == "input_image" && p.ImageURL != "":
			content = append(content, protocol.MediaPart(session.PartImage, p.ImageURL, ""))
		case p.Type == "input_file" && p.FileURL+p.FileData != "":
			content = append(content, protocol.MediaPart(session.PartFile, p.FileURL+p.FileData, p.Filename))
		default:
			return nil, refuse(at, "A part of the type '%s' is not supported here, or lacks what it must have.", p.Type)
		}
	}
	return content, nil
}

func outputOf(at string, raw json.RawMessage) (string, error) {
	content, err := parseContent(at+".output", raw)
	if err != nil {
		return "", err
	}
	for _, p := range content {
		if p.Type != session.PartText {
			return "", refuse(at+".output", "The output of a function is text here.")
		}
	}
	return content.Text(), nil
}
