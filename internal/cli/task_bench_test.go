package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/provtest"
)

const taskModel = "openai/gpt-4o-mini"

// part is what the model does in a step of the plan: it calls a tool, and when
// that has run it has this to say.
type part struct{ step, tool, arguments, words string }

var repairing = []part{
	{"read the file", "file_read", `{"path":"service.ini"}`, "It has the letter O."},
	{"repair the file", "file_edit", `{"path":"service.ini","old":"3O","new":"30"}`, "It is 30 now."},
	{"leave a mark", "shell", `{"command":"echo x >> marks"}`, "A mark is left."},
	{"make a folder", "shell", `{"command":"mkdir -p marks"}`, "There is a folder."},
	{"ask for the port", "request_user_input", `{"question":"Which port?","options":["80","8080"]}`, "It listens."},
	{"make a list", "task_list_create", `{"items":[{"title":"repair","status":"completed"}]}`, "The list is made."},
}

// workbench is a bench with a folder to work in, and a model that plans these
// steps and does them. Before it answers it asks gate, which may take its time
// and may say something else.
func workbench(t *testing.T, gate func(said string, ran bool) *provtest.Reply, steps ...string) (b *bench, folder string) {
	t.Helper()
	b = newBench(t, func(said string, r provtest.Request) provtest.Reply {
		ran := toolRan(r)
		if gate != nil {
			if other := gate(said, ran); other != nil {
				return *other
			}
		}
		if strings.Contains(said, "Make a plan") {
			return saying(planFor(steps))
		}
		for _, p := range repairing {
			switch {
			case !strings.Contains(said, p.step):
			case ran:
				return saying(p.words)
			default:
				return provtest.Reply{
					Calls: []provtest.Call{{ID: fmt.Sprint("call-", r.Turn), Name: p.tool, Arguments: []string{p.arguments}}},
					Usage: provtest.Usage{Input: 20, Output: 10},
				}
			}
		}
		return saying("re: " + said)
	})
	folder = filepath.Join(b.dir, "work")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	b.write(filepath.Join("work", "service.ini"), "timeout = 3O\n")
	return b, folder
}

func planFor(steps []string) string {
	plan := map[string]any{"description": "the repair"}
	var list []map[string]string
	for _, s := range steps {
		list = append(list, map[string]string{"description": s})
	}
	plan["steps"] = list
	raw, err := json.Marshal(plan)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// toolRan reports a request whose last message is the result of a tool.
func toolRan(r provtest.Request) bool {
	var body struct{ Messages []struct{ Role string } }
	if json.Unmarshal(r.Body, &body) != nil || len(body.Messages) == 0 {
		return false
	}
	roles := slices.Clone(body.Messages)
	return roles[len(roles)-1].Role == "tool"
}

// start begins a task in the folder.
func (b *bench) start(code int, folder string, more ...string) (out, errs string) {
	b.t.Helper()
	return b.run(code, append([]string{"task", "start", "repair it", "--workspace", folder, "--model", taskModel}, more...)...)
}

// read is a file of the bench.
func (b *bench) read(name ...string) string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{b.dir}, name...)...))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

// task is the id of the one task there is.
func (b *bench) task() string {
	b.t.Helper()
	out, _ := b.run(0, "task", "list", "--json")
	var rows []struct{ ID string }
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 1 {
		b.t.Fatalf("not one task: %v\n%s", err, out)
	}
	return rows[0].ID
}

// contains fails where a text has not all of these, in this order.
func (b *bench) contains(text string, want ...string) {
	b.t.Helper()
	rest := text
	for _, w := range want {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			b.t.Errorf("%q is not where it should be in\n%s", w, text)
			return
		}
		rest = after
	}
}

// jsonOf decodes the answer of a command.
func jsonOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}
