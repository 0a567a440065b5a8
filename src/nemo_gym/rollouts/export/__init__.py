"""How are results written for another program?"""
