package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/workflow/template"
)

// Models that are asked for JSON alone often say more. Three readings are
// tried: the whole answer, the first fenced block that opens with a bracket,
// and the first part that looks like what was asked for. Where one is no JSON,
// or not of the right shape, the next is tried.

var (
	fencedObject   = regexp.MustCompile("(?s)```(?:json)?\\s*(\\{.*?\\})\\s*```")
	fencedPlan     = regexp.MustCompile("(?s)```(?:json)?\\s*([\\[{].*?[\\]}])\\s*```")
	spanOfRoute    = regexp.MustCompile(`(?s)\{.*?"route".*?\}`)
	spanOfScore    = regexp.MustCompile(`(?s)\{.*?"score".*?\}`)
	spanOfPlan     = regexp.MustCompile(`(?s)\[\s*\{.*?\}\s*\]`)
	errNotReadable = errors.New("the answer holds no JSON of the form that was asked for")
	errWrongAnswer = errors.New("not of the form that was asked for")
)

// readRoute reads the route that a router has chosen.
func readRoute(text string) (string, error) {
	return readAnswer(text, fencedObject, spanOfRoute, func(raw json.RawMessage) (string, error) {
		fields, err := object(raw)
		if err != nil {
			return "", err
		}
		var route *string
		if err := json.Unmarshal(fields["route"], &route); err != nil || route == nil {
			return "", errWrongAnswer
		}
		return *route, nil
	})
}

// readAnswer returns the first reading that check accepts.
func readAnswer[T any](text string, fence, span *regexp.Regexp, check func(json.RawMessage) (T, error)) (T, error) {
	tries := []string{strings.TrimSpace(text)}
	if m := fence.FindStringSubmatch(text); m != nil {
		tries = append(tries, m[1])
	}
	if m := span.FindString(text); m != "" {
		tries = append(tries, m)
	}
	for _, try := range tries {
		raw, err := parseJSON(try)
		if err != nil {
			continue
		}
		if read, err := check(raw); err == nil {
			return read, nil
		}
	}
	var none T
	return none, errNotReadable
}

// parseJSON reads a text that is one JSON value.
func parseJSON(text string) (json.RawMessage, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errWrongAnswer
	}
	return raw, nil
}

// object returns the fields of a JSON object; the exact names count.
func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, errWrongAnswer
	}
	return fields, nil
}

// evaluation is how a draft was judged.
type evaluation struct {
	Score  int      `json:"score"`
	Issues []string `json:"issues"`
	Fixes  []string `json:"fixes"`
}

// readEvaluation reads the judgement in an evaluator's answer.
func readEvaluation(text string) (evaluation, error) {
	return readAnswer(text, fencedObject, spanOfScore, func(raw json.RawMessage) (e evaluation, err error) {
		fields, err := object(raw)
		if err != nil {
			return e, err
		}
		if e.Score, err = score(fields["score"]); err != nil {
			return e, err
		}
		if e.Issues, err = texts(fields["issues"]); err != nil {
			return e, err
		}
		e.Fixes, err = texts(fields["fixes"])
		return e, err
	})
}

// score reads a whole number from 0 to 100, also as 85.0 or "85".
func score(raw json.RawMessage) (int, error) {
	text := strings.TrimSpace(string(raw))
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, err
		}
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || f != float64(int(f)) || f < 0 || f > 100 {
		return 0, errWrongAnswer
	}
	return int(f), nil
}

// texts reads a list of strings; absent and null are empty.
func texts(raw json.RawMessage) ([]string, error) {
	list := []string{}
	if raw == nil || string(raw) == "null" {
		return list, nil
	}
	var items []*string
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, err
	}
	for _, item := range items {
		if item == nil {
			return nil, errWrongAnswer
		}
		list = append(list, *item)
	}
	return list, nil
}

// readPlan reads the array of tasks in an orchestrator's answer.
func readPlan(text string) (json.RawMessage, error) {
	return readAnswer(text, fencedPlan, spanOfPlan, func(raw json.RawMessage) (json.RawMessage, error) {
		if strings.HasPrefix(string(raw), "{") {
			raw = append(append(json.RawMessage{'['}, raw...), ']')
		}
		items, err := planItems(raw)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if item[0] != '{' && item[0] != '"' {
				return nil, errWrongAnswer
			}
		}
		var out bytes.Buffer
		if err := json.Compact(&out, raw); err != nil {
			return nil, err
		}
		return out.Bytes(), nil
	})
}

func planItems(raw json.RawMessage) ([]json.RawMessage, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, err
	}
	if items == nil {
		return nil, errWrongAnswer
	}
	return items, nil
}

// planTasks returns the texts of a plan's tasks.
func planTasks(raw json.RawMessage) ([]string, error) {
	items, err := planItems(raw)
	if err != nil {
		return nil, err
	}
	tasks := make([]string, len(items))
	for i, item := range items {
		v, err := template.ParseJSON(item)
		if err != nil {
			return nil, err
		}
		if d, ok := v.(*template.Dict); ok {
			if task, there := d.Get("task"); there {
				v = task
			}
		}
		if tasks[i], err = printPython(v); err != nil {
			return nil, err
		}
	}
	return tasks, nil
}

// printPython prints a value as Python does; text stays as it is.
func printPython(v template.Value) (string, error) {
	if s, ok := v.(template.Str); ok {
		return string(s), nil
	}
	t, err := template.Compile("task", "{{ v }}")
	if err != nil {
		return "", fmt.Errorf("print a task: %w", err)
	}
	return t.Render(template.Scope{"v": v})
}
