package main

func writeSamples(string) {}
