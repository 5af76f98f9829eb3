// What pods of the tests do that need no image of ours: one program without a shell around it.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount"

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(verb string, arguments []string) error {
	switch verb {
	case "get": // URL: with the token of the pod's ServiceAccount, by the authority that it has
		return get(arguments[0])
	case "write": // FILE TEXT
		return os.WriteFile(arguments[0], []byte(arguments[1]), 0o644)
	case "eat": // takes memory until it is killed
		var all [][]byte
		for {
			all = append(all, touched(16<<20))
		}
	case "wait": // until it is told to stop
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		<-stop
		return nil
	}
	return fmt.Errorf("no such verb: %s", verb)
}

func touched(size int) []byte {
	block := make([]byte, size)
	for i := range block {
		block[i] = 1
	}
	return block
}

func get(url string) error {
	request, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return err
	}
	client := http.DefaultClient
	if token, err := os.ReadFile(account + "/token"); err == nil {
		authority, err := os.ReadFile(account + "/ca.crt")
		if err != nil {
			return err
		}
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(authority)
		client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
		request.Header.Set("authorization", "Bearer "+string(token))
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	fmt.Println(answer.StatusCode, string(text))
	return err
}
