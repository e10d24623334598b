package watchkeeper

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// must fails the test on an error.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// notes are configmaps, written with plain HTTP, as any client could.
type notes struct {
	t       *testing.T
	cluster *Cluster
}

func (n notes) send(method, name string, object any) (int, []byte, error) {
	n.t.Helper()
	var body bytes.Buffer
	if object != nil {
		if err := json.NewEncoder(&body).Encode(object); err != nil {
			n.t.Fatal(err)
		}
	}
	url := n.cluster.URL + "/api/v1/namespaces/default/configmaps" + name
	request, err := http.NewRequest(method, url, &body)
	if err != nil {
		n.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+n.cluster.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := n.cluster.wire.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	var answer bytes.Buffer
	_, err = answer.ReadFrom(response.Body)
	return response.StatusCode, answer.Bytes(), err
}

func (n notes) create(name string) (int, error) {
	n.t.Helper()
	metadata := map[string]string{"name": name}
	code, _, err := n.send("POST", "", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
	return code, err
}

// ensure is a small controller: it creates the note if it is missing.
func (n notes) ensure(name string) error {
	n.t.Helper()
	if code, _, err := n.send("GET", "/"+name, nil); err != nil || code == 200 {
		return err
	}
	code, err := n.create(name)
	if err == nil && code != 201 {
		err = &Refused{Code: code}
	}
	return err
}

// end deletes the note when it is older than an hour by the server's clock.
func (n notes) end(name string) {
	n.t.Helper()
	_, text, err := n.send("GET", "/"+name, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	var found struct {
		Metadata struct{ CreationTimestamp time.Time }
	}
	if err := json.Unmarshal(text, &found); err != nil {
		n.t.Fatal(err)
	}
	if now := must(n.cluster.Now())(n.t); now.Sub(found.Metadata.CreationTimestamp) >= time.Hour {
		if code, text, err := n.send("DELETE", "/"+name, nil); err != nil || code != 200 {
			n.t.Fatal(code, string(text), err)
		}
	}
}

func TestTheSecondReconcileWritesNothing(t *testing.T) {
	cluster := Start(t, Options{})
	notes := notes{t, cluster}
	must(0, notes.ensure("a"))(t)
	if writes := must(cluster.Writes())(t); len(writes) != 1 || writes[0].Verb != "create" || writes[0].Name != "a" {
		t.Fatalf("%+v", writes)
	}
	must(0, cluster.ClearWrites())(t)
	must(0, notes.ensure("a"))(t)
	if writes := must(cluster.Writes())(t); len(writes) != 0 {
		t.Fatalf("%+v", writes)
	}
}

func TestFaultsFireAndAreOnRecord(t *testing.T) {
	cluster := Start(t, Options{})
	notes := notes{t, cluster}
	creates := Request{Verb: "create", Resource: "configmaps"}
	must(cluster.AddFault(Fault{Request: creates, Nth: 2, Times: 1, Action: Fail(409, "Conflict")}))(t)
	must(0, notes.ensure("a"))(t)
	var refused *Refused
	if err := notes.ensure("b"); !errors.As(err, &refused) || refused.Code != 409 {
		t.Fatal(err)
	}
	must(0, notes.ensure("b"))(t)
	if fired := must(cluster.Fired())(t); len(fired) != 1 || fired[0].Verb != "create" {
		t.Fatalf("%+v", fired)
	}
	id := must(cluster.AddFault(Fault{Action: "forbid"}))(t)
	if code, _ := notes.create("c"); code != 403 {
		t.Fatal(code)
	}
	must(0, cluster.RemoveFault(id))(t)
	must(0, notes.ensure("c"))(t)
	must(0, cluster.ClearFaults())(t)
}

func TestALostAnswerDoesNotMakeTwo(t *testing.T) {
	cluster := Start(t, Options{})
	notes := notes{t, cluster}
	creates := Request{Verb: "create", Resource: "configmaps"}
	must(cluster.AddFault(Fault{Request: creates, Times: 1, Action: LoseAnswer()}))(t)
	if err := notes.ensure("a"); err == nil {
		t.Fatal("the answer was not lost")
	}
	must(0, notes.ensure("a"))(t)
	if writes := must(cluster.Writes())(t); len(writes) != 1 {
		t.Fatalf("%+v", writes)
	}
}

func TestTimeIsMoved(t *testing.T) {
	cluster := Start(t, Options{})
	notes := notes{t, cluster}
	must(0, notes.ensure("a"))(t)
	there := func() bool {
		code, _, err := notes.send("GET", "/a", nil)
		return err == nil && code == 200
	}
	if notes.end("a"); !there() {
		t.Fatal("the note was deleted too early")
	}
	frozen := must(cluster.Freeze())(t)
	if moved := must(cluster.Advance(time.Hour))(t); moved.Sub(frozen) != time.Hour {
		t.Fatal(frozen, moved)
	}
	must(cluster.Thaw())(t)
	if notes.end("a"); there() {
		t.Fatal("the expired note still exists")
	}
}

func TestSnapshotsArePutBack(t *testing.T) {
	cluster := Start(t, Options{})
	notes := notes{t, cluster}
	must(0, notes.ensure("a"))(t)
	snapshot := must(cluster.Snapshot())(t)
	must(0, notes.ensure("b"))(t)
	must(0, snapshot.Restore())(t)
	if code, _, _ := notes.send("GET", "/b", nil); code != 404 {
		t.Fatal(code)
	}
	must(0, snapshot.Forget())(t)
	var refused *Refused
	if err := snapshot.Restore(); !errors.As(err, &refused) || refused.Code != 404 {
		t.Fatal(err)
	}
	must(0, cluster.WaitIdle(5*time.Millisecond, time.Minute))(t)
	must(0, cluster.Compact())(t)
	must(0, cluster.Reset())(t)
	if code, _, _ := notes.send("GET", "/a", nil); code != 404 {
		t.Fatal(code)
	}
}

// Go's client asks for gzip, and its decoder looks for the next member of a stream before it hands over the last one's end.
func TestEveryEventOfACompressedWatchComesAtOnce(t *testing.T) {
	cluster := Start(t, Options{})
	notes := notes{t, cluster}
	url := cluster.URL + "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0&fieldSelector=metadata.name!%3Dkube-root-ca.crt"
	request := must(http.NewRequest("GET", url, nil))(t)
	request.Header.Set("Authorization", "Bearer "+cluster.Token)
	response := must(cluster.wire.client.Do(request))(t)
	defer response.Body.Close()
	if !response.Uncompressed {
		t.Fatal("the watch was not compressed")
	}
	events := json.NewDecoder(response.Body)
	// Small events are stored, large ones are compressed.
	for _, note := range []struct{ name, text string }{{"small", ""}, {"large", strings.Repeat("text ", 10000)}, {"last", ""}} {
		object := map[string]any{"metadata": map[string]string{"name": note.name}, "data": map[string]string{"text": note.text}}
		if code, text, err := notes.send("POST", "", object); err != nil || code != 201 {
			t.Fatal(code, string(text), err)
		}
		stuck := time.AfterFunc(time.Minute, func() { response.Body.Close() })
		var event struct {
			Object struct{ Metadata struct{ Name string } }
		}
		if err := events.Decode(&event); err != nil || event.Object.Metadata.Name != note.name {
			t.Fatal("not the event of ", note.name, event, err)
		}
		stuck.Stop()
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	_, err := Launch(t.TempDir(), Options{Args: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "--no-such-flag") {
		t.Fatal(err)
	}
}
