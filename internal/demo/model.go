// Package demo has sample sessions for a first look: a model that answers from a
// script, and what is sent to a server so that every screen shows something.
package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
)

// Name is the model's name in definitions.
const Name = "offline/demo"

// Model answers from a script, by what was said so far. It keeps nothing, so any
// process continues what another began.
type Model struct {
	Pace time.Duration // between two streamed words
}

// WorksOffline makes the model an llm.Offline.
func (Model) WorksOffline() {}

// Cost is invented, so that there is something to add up.
func (Model) Cost(u session.Usage) session.Cost { return session.Cost(3*u.Input + 15*u.Output) }

// Infer says the next line of the script.
func (m Model) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	next := follow(r)
	size := len(next.text) + len(next.reasoning)
	response := llm.Response{FinishReason: "stop", Model: Name}
	if emit == nil {
		emit = func(llm.Delta) {}
	}
	err := offline.Stream(ctx, next.reasoning, m.Pace, func(word string) { emit(llm.Delta{Reasoning: word}) })
	if err == nil {
		err = offline.Stream(ctx, next.text, m.Pace, func(word string) { emit(llm.Delta{Text: word}) })
	}
	if err != nil {
		return llm.Response{}, err
	}
	if next.reasoning != "" {
		response.Content = append(response.Content, session.Part{Type: session.PartReasoning, Text: next.reasoning})
	}
	if next.text != "" {
		response.Content = append(response.Content, session.Text(next.text)...)
	}
	if next.tool != "" {
		call := session.ToolCall{ID: fmt.Sprintf("call-%d", len(r.Messages)), Name: next.tool, Arguments: next.arguments}
		response.ToolCalls, response.FinishReason = []session.ToolCall{call}, "tool_calls"
		size += len(next.arguments)
	}
	response.Usage = session.Usage{Input: offline.Tokens(r), Output: int64(size+3) / 4}
	return response, nil
}

// line is what the model says next.
type line struct {
	reasoning, text string
	tool            string
	arguments       json.RawMessage
}

// follow finds the next line of the script: by the agent, the last message of
// the user, and the tools that have run since.
func follow(r llm.Request) line {
	said, ran := "", map[string]bool{}
	for _, m := range r.Messages {
		switch {
		case m.Role == session.RoleUser:
			said = m.Content.Text()
		case m.ToolResult != nil && !m.ToolResult.IsError:
			ran[m.ToolResult.ToolName] = true
		}
	}
	if r.Agent == mechanic {
		return repair(ran)
	}
	for _, l := range script {
		if !strings.Contains(said, l.to) {
			continue
		}
		if l.line.tool != "" && ran[l.line.tool] {
			return l.then
		}
		return l.line
	}
	return line{text: fmt.Sprintf("You said: %s\n\nThis is the model of the demonstration: it knows a few sentences by heart. "+
		"With a key of a provider, `holdfast serve` talks to a real one.", said)}
}

// repair is the task: it reads a file, and edits it once that is approved.
func repair(ran map[string]bool) line {
	switch {
	case !ran["file_read"]:
		return line{reasoning: "The settings are the first place to look.", tool: "file_read", arguments: json.RawMessage(`{"path":"clock.ini"}`)}
	case !ran["file_edit"]:
		return line{
			text: "The timeout is `3O`: the last character is a letter, not a zero.", tool: "file_edit",
			arguments: json.RawMessage(`{"path":"clock.ini","old":"timeout = 3O","new":"timeout = 30"}`),
		}
	}
	return line{text: "The timeout is a number again: `timeout = 30`."}
}

// script is what the model knows by heart, by a part of what it was asked.
var script = []struct {
	to         string
	line, then line // then: once the tool has run
}{
	{to: "coat in Oslo", line: line{
		reasoning: "November in Oslo: around freezing, often wet.",
		text: "Yes, a **warm and waterproof** one.\n\n| | day | night |\n|---|---:|---:|\n| Friday | 3 °C | −2 °C |\n| Saturday | 1 °C | −4 °C |\n\n" +
			"Take as well:\n\n- gloves\n- shoes that stay dry\n- something for the evening: it is dark at four",
	}},
	{to: "by train", line: line{text: "From Gothenburg it is four hours, along the coast at first. Sit on the left.\n\n```text\n07:55  Göteborg C\n11:58  Oslo S\n```"}},
	{to: "And how do I get there", line: line{text: "By plane from most cities in two hours; the train from the airport takes 19 minutes."}},
	{to: "17 % of 4,230", line: line{reasoning: "Better computed than guessed.", tool: "calculator", arguments: json.RawMessage(`{"expression":"4230*17/100"}`)},
		then: line{text: "17 % of 4,230 is **719.1**."}},
	{to: "Write a haiku about logs", line: line{text: "One line, then the next —\nwhat was said stays said, although\nthe power went out."}},
	{to: "Write a tweet", line: line{text: "Your agent died at 3 a.m. Its conversation did not. Durable sessions for Go, in one file."}},
	{to: "Put this into its final form", line: line{text: "Your agent died at 3 a.m. Its conversation did not."}},
}
