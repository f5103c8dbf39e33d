package benchrecall

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/llm/sentences"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// modes are the ways to search, in the order of the table.
var modes = []memory.Mode{memory.Keyword, memory.Semantic, memory.Hybrid}

// count is how many questions of a kind found their answer.
type count struct {
	asked      int
	at1, at5   int
	answered   int // with anything at all
	unfound    []string
	answerings []string
}

// result is what was measured, by language, mode and kind of question.
type result map[string]map[memory.Mode]map[string]*count

// told is an action that adds messages of a user.
type told []string

// Name is Told.
func (told) Name() string { return "Told" }

// Execute adds the messages.
func (t told) Execute(_ context.Context, s session.Session) (session.Session, error) {
	at := time.Now()
	var changes []session.Change
	for i, text := range t {
		changes = append(changes, session.MessageAdded{Message: session.Message{
			ID: fmt.Sprintf("m-%d", i), Role: session.RoleUser, CreatedAt: at, Content: session.Text(text),
		}})
	}
	return s.With(at, changes...)
}

// measure asks the questions of some languages in some modes with default options.
func measure(ctx context.Context, dir string, languages []string, modes []memory.Mode, kinds ...string) (measured result, err error) {
	st, err := sqlite.Open(ctx, filepath.Join(dir, "recall.db"), sqlite.Config{})
	if err != nil {
		return nil, err
	}
	rt, err := holdfast.New(holdfast.Config{
		Store: st, Models: llm.Map{"none": scripted.New()}, Embedder: sentences.Embedder{},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rt.Close(), st.Close()) }() //nolint:contextcheck // closing outlives the context
	measured = result{}
	for _, language := range languages {
		t, err := readTexts(language, kinds...)
		if err != nil {
			return nil, err
		}
		if measured[language], err = ask(ctx, rt, t, modes); err != nil {
			return nil, fmt.Errorf("%s: %w", language, err)
		}
	}
	return measured, nil
}

// ask tells a session everything and asks every question about it.
func ask(ctx context.Context, rt *holdfast.Runtime, t texts, modes []memory.Mode) (map[memory.Mode]map[string]*count, error) {
	s, err := rt.Create(ctx, session.Definition{Name: "listener", Model: "none"})
	if err != nil {
		return nil, err
	}
	if _, err := rt.Execute(ctx, s.ID(), told(t.messages)); err != nil {
		return nil, err
	}
	if _, err := rt.Embed(ctx); err != nil {
		return nil, err
	}
	m, err := rt.Memory(ctx, s.ID())
	if err != nil {
		return nil, err
	}
	measured := map[memory.Mode]map[string]*count{}
	for _, mode := range modes {
		measured[mode] = map[string]*count{}
		for _, q := range t.questions {
			c := measured[mode][q.kind]
			if c == nil {
				c = &count{}
				measured[mode][q.kind] = c
			}
			hits, err := m.Recall(ctx, q.text, memory.RecallOptions{Mode: mode})
			if err != nil {
				return nil, err
			}
			c.add(q, hits)
		}
	}
	return measured, nil
}

func (c *count) add(q question, hits []memory.Hit) {
	c.asked++
	if len(hits) > 0 {
		c.answered++
		c.answerings = append(c.answerings, fmt.Sprintf("%s -> %.2f %s", q.text, hits[0].Score, hits[0].Text))
	}
	for i, hit := range hits {
		if hit.ID == fmt.Sprintf("m-%d", q.answer) {
			c.at5++
			if i == 0 {
				c.at1++
			}
			return
		}
	}
	c.unfound = append(c.unfound, q.text)
}
