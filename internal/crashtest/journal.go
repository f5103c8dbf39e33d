package crashtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// What is a kind of effect outside of the store, which cannot be undone.
type What string

// The kinds.
const (
	Asked What = "asked" // the model was asked for an answer
	Began What = "began" // a tool call began
	Ended What = "ended" // the work of a tool call was done
)

// Effect is one line of a journal.
type Effect struct {
	What   What
	Key    string // of the answer, or the id of the call
	Detail string `json:",omitempty"` // what a request said besides
	Life   int    // the process that caused it, counted from 0
}

// journal is the file in which all processes of a run record effects.
type journal string

func journalIn(dir string) journal { return journal(filepath.Join(dir, "effects")) }

// add appends a line with one system call, so that it survives a crash.
func (j journal) add(e Effect) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(string(j), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

func (j journal) read() ([]Effect, error) {
	raw, err := os.ReadFile(string(j))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var all []Effect
	for line := range bytes.Lines(raw) {
		var e Effect
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("effect %q: %w", line, err)
		}
		all = append(all, e)
	}
	return all, nil
}
