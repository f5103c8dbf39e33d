package main

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/provtest"
)

// model is a server that speaks the Chat Completions protocol and answers from
// a script. It keeps nothing in mind: what it says depends on what it is told,
// as with a real one.
type model struct {
	*provtest.Server
	edited chan struct{} // closed when it is told of the edit for the first time
	once   sync.Once
}

func startModel() *model {
	m := &model{edited: make(chan struct{})}
	m.Server = provtest.OpenAI(provtest.Config{Choose: m.answer})
	return m
}

// script is what is said in each step: the tool that is called, and the words
// when it has run.
var script = []struct{ step, tool, arguments, words string }{
	{"read", "file_read", `{"path":"service.ini"}`, "The timeout is 3O, with the letter O: that is no number."},
	{"repair", "file_edit", `{"path":"service.ini","old":"3O","new":"30"}`, "The timeout is 30 now."},
	{"success criteria", "file_write", `{"path":"CHANGES.md","content":"The timeout is a number again.\n"}`, "CHANGES.md tells of it."},
}

func (m *model) answer(r provtest.Request) provtest.Reply {
	asked, ran := conversation(r.Body)
	if strings.Contains(asked, "Make a plan") {
		return says(`{"description":"repair the service","steps":[{"description":"read service.ini"},{"description":"repair what is wrong"}]}`)
	}
	for _, s := range script {
		if !strings.Contains(asked, s.step) {
			continue
		}
		if !ran {
			reply := says("")
			reply.Calls = []provtest.Call{{ID: "call-" + s.tool, Name: s.tool, Arguments: []string{s.arguments}}}
			return reply
		}
		first := false
		if s.tool == "file_edit" {
			m.once.Do(func() { first = true })
		}
		if first { // it thinks, and thinks, until whoever asked is gone
			close(m.edited)
			return provtest.Reply{Hang: true}
		}
		return says(s.words)
	}
	return says("I have nothing to say to that.")
}

func says(text string) provtest.Reply {
	reply := provtest.Reply{Usage: provtest.Usage{Input: 200, Output: 20}}
	if text != "" {
		reply.Text = []string{text}
	}
	return reply
}

// conversation is the last thing that was asked, and whether a tool has run
// since.
func conversation(body []byte) (asked string, ran bool) {
	var request struct {
		Messages []struct {
			Role    string
			Content any
		}
	}
	_ = json.Unmarshal(body, &request) // the server has checked it
	for _, m := range request.Messages {
		switch m.Role {
		case "user":
			asked, ran = strings.ToLower(text(m.Content)), false
		case "tool":
			ran = true
		}
	}
	if strings.Contains(asked, "make a plan") {
		asked = "Make a plan"
	}
	return asked, ran
}

func text(content any) string {
	if s, ok := content.(string); ok {
		return s
	}
	raw, _ := json.Marshal(content) //nolint:errchkjson // it came out of JSON
	return string(raw)
}
