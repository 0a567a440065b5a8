"""What is done with a trained model on the machine of its user: talk to it, serve it, export it, push it."""
