package server

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	foundBefore = 60   // bytes of a message that are shown before the first word
	foundSize   = 300  // bytes of a message that are shown
	mostLooked  = 1000 // messages that are looked at for those in the sessions that are meant
)

func (s *Server) addFound() {
	register(s, apikey.Read, huma.Operation{
		OperationID: "find-messages", Method: http.MethodGet, Path: "/v1/search",
		Summary: "Find messages by their words, in all sessions", Tags: []string{"sessions"},
		Description: "A message is found if it holds all words of the query, in any case, and its session shows it. The newest come first. " +
			"With a filter of sessions, the newest 1,000 messages with these words are looked at.",
	}, findMessages)
}

type findInput struct {
	Query string `query:"q" required:"true" minLength:"1"`
	Limit int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
	SessionFilter
}

// foundMessage is a message that was found, with the session that shows it.
type foundMessage struct {
	Session   session.Info `json:"session"`
	Seq       int64        `json:"seq" doc:"The change that added the message"`
	MessageID string       `json:"messageId"`
	Text      string       `json:"text" doc:"The part of the message around the first word"`
	At        time.Time    `json:"at"`
}

type findOutput struct {
	Body struct {
		Items []foundMessage `json:"items"`
	}
}

func findMessages(ctx context.Context, c caller, in *findInput) (*findOutput, error) {
	out := &findOutput{}
	out.Body.Items = []foundMessage{}
	words := store.Words(in.Query)
	if len(words) == 0 { // such as a sign that is no word
		return out, nil
	}
	meant, limit := in.query(), in.Limit
	if !reflect.DeepEqual(in.SessionFilter, SessionFilter{}) {
		limit = mostLooked
	}
	if _, _, err := meant.Check(); err != nil {
		return nil, err
	}
	found, err := c.rt.FindMessages(ctx, in.Query, limit)
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		if len(out.Body.Items) == in.Limit {
			break
		}
		i, err := c.rt.Info(ctx, p.SessionID)
		if errors.Is(err, session.ErrNotFound) {
			continue // it was purged meanwhile
		}
		if err != nil {
			return nil, err
		}
		if ok, err := meant.Match(i, nil); err != nil || !ok {
			continue // it has no condition on metadata, which alone could fail
		}
		out.Body.Items = append(out.Body.Items, foundMessage{Session: i, Seq: p.Seq, MessageID: p.MessageID, Text: excerpt(p.Text, words), At: p.At})
	}
	return out, nil
}

// excerpt returns the part of a text around the first of some words, which are
// in lower case.
func excerpt(text string, words []string) string {
	if len(text) <= foundSize {
		return text
	}
	first := 0
	if lower := strings.ToLower(text); len(lower) == len(text) { // else places differ
		first = len(text)
		for _, word := range words {
			if at := strings.Index(lower, word); at >= 0 {
				first = min(first, at)
			}
		}
	}
	from := max(0, min(first-foundBefore, len(text)-foundSize))
	to := min(len(text), from+foundSize)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	cut := text[from:to]
	if from > 0 {
		cut = "…" + cut
	}
	if to < len(text) {
		cut += "…"
	}
	return cut
}
