package strands_test

import (
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]strands.Kind{
		chainSession: strands.KindWorkflow,
		`{"session_id": "x", "session_type": "AGENT", "metadata": {}}`: strands.KindAgent,
		`{"header": {}}`: strands.KindNone,
		`[]`:             strands.KindNone,
		`{`:              strands.KindNone,
		`null`:           strands.KindNone,
	} {
		if got := strands.Detect([]byte(text)); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

func TestConversation_ofAnAgentAlone(t *testing.T) {
	t.Parallel()
	d := sessionDir(t)
	want := conversation(t)
	if err := d.SaveConversation(id, want, nil); err != nil {
		t.Fatal(err)
	}
	alone := strands.Dir(filepath.Join(d.AgentsDir(), strands.FolderName(id, want.Place, nil)))
	if kind := strands.Detect([]byte(get(t, filepath.Join(string(alone), "session.json")))); kind != strands.KindAgent {
		t.Errorf("its session.json is of kind %q", kind)
	}
	want.Place = strands.Place{}
	if got, err := alone.Conversation(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("conversation is\n%+v (%v)", got, err)
	}
	if _, err := strands.Dir(t.TempDir()).Conversation(); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("error is %v, want not found", err)
	}
}
